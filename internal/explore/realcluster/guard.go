package realcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// scheduler is that of all pods of a replay: none has this name, so that no other program acts on them.
const scheduler = "test.setpoint.dev"

// Do sends a request of a story. A write elsewhere than in the namespaces of the replay is an error, unless it is of a
// cluster-scoped object that the replay creates.
func (c *Cluster) Do(ctx context.Context, r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return c.forward(ctx, r)
	}
	if err := c.checkTarget(ctx, r); err != nil {
		return nil, err
	}
	if err := unscheduled(r); err != nil {
		return nil, err
	}
	response, err := c.forward(ctx, r)
	if err == nil && response.StatusCode == http.StatusCreated {
		err = c.noteCreated(r.URL.Path, response)
	}
	return response, err
}

// checkTarget reports a write to what is not of the replay.
func (c *Cluster) checkTarget(ctx context.Context, r *http.Request) error {
	_, below, namespaced := strings.Cut(r.URL.Path, "/namespaces/")
	if name, _, _ := strings.Cut(below, "/"); namespaced {
		if slices.Contains(c.namespaces, name) {
			return nil
		}
		return fmt.Errorf("the controller writes to the namespace %s (%s %s); a replay writes only to namespaces of its own",
			name, r.Method, r.URL.Path)
	}
	if r.Method == http.MethodPost {
		return nil // It fails if the object exists.
	}
	path := strings.TrimSuffix(r.URL.Path, "/status")
	if slices.Contains(c.created, path) {
		return nil
	}
	code, _, err := c.send(ctx, http.MethodGet, path, "", nil)
	if err == nil && code != http.StatusNotFound {
		err = fmt.Errorf("the controller writes to an object that was in the cluster before (%s %s); a replay writes only to what it "+
			"has created", r.Method, r.URL.Path)
	}
	return err
}

// noteCreated notes the path of an object that was created, and of one in a namespace too, for its finalizers.
func (c *Cluster) noteCreated(path string, response *http.Response) error {
	data, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // Reading it has shown all errors.
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(data))
	o, err := object.Parse(data)
	if err != nil || o.Name() == "" || o.Kind() == "Status" {
		return nil //nolint:nilerr // It is a subresource such as a binding.
	}
	if !strings.HasSuffix(path, "/"+o.Name()) {
		path += "/" + o.Name()
	}
	c.created = append(c.created, path)
	return nil
}

// unscheduled keeps the scheduler away from the pods of a replay: what happens to them is a step of the story.
func unscheduled(r *http.Request) error {
	rest := strings.Split(r.URL.Path, "/pods")
	if len(rest) != 2 || strings.Count(rest[1], "/") > 1 || r.Body == nil {
		return nil
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var pod map[string]json.RawMessage
	var spec map[string]any
	if json.Unmarshal(data, &pod) == nil && json.Unmarshal(pod["spec"], &spec) == nil && spec != nil {
		spec["schedulerName"] = scheduler
		if pod["spec"], err = json.Marshal(spec); err == nil {
			data, err = json.Marshal(pod)
		}
		if err != nil {
			return err
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return nil
}
