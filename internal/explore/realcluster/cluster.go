// Package realcluster makes room for a story on a real API server: the kinds of its files, namespaces of its own, and a
// client that writes nowhere else and remembers what to remove.
//
// It knows no steps: package explore makes them. The command `setpoint test` calls it.
package realcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Label has the name of the story on the namespaces of its replay. `kubectl delete namespaces -l` finds those that a
// killed process has left.
const Label = "test.setpoint.dev/story"

// Options of Open.
type Options struct {
	Config *rest.Config
	// CRDs are created, and must not exist: a controller of the same kind may be at work.
	CRDs []*object.Object
	// Story is the name of the story.
	Story string
}

// Cluster is where one story is replayed. It is not safe for concurrent use.
type Cluster struct {
	options Options
	client  *http.Client
	host    *url.URL
	// namespaces are those of this replay, created the paths of its objects in the order of their creation, and kinds
	// those of its CRDs.
	namespaces, created, kinds []string
}

// How long the cluster may take until something is there or gone, and how often the replay looks.
const (
	limit = 60 * time.Second
	poll  = 50 * time.Millisecond
)

// Open creates the CRDs. Close removes them, also after an error.
func Open(ctx context.Context, options Options) (*Cluster, error) {
	client, err := rest.HTTPClientFor(options.Config)
	if err != nil {
		return nil, err
	}
	host, _, err := rest.DefaultServerUrlFor(options.Config)
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, client: client, host: host}
	for _, crd := range options.CRDs {
		if err := c.define(ctx, crd); err != nil {
			return nil, errors.Join(err, c.Close(ctx))
		}
	}
	return c, nil
}

// crds is the path of CustomResourceDefinitions.
const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// define creates a CRD and waits until its kind is served.
func (c *Cluster) define(ctx context.Context, crd *object.Object) error {
	code, message, err := c.send(ctx, http.MethodPost, crds, "application/json", crd.JSON())
	switch {
	case err != nil:
		return fmt.Errorf("create %s: %w", crd.Ref(), err)
	case code == http.StatusConflict:
		return fmt.Errorf("%s exists in the cluster, and its controller would change what the story is about; use a cluster without it, such as that of `setpoint dev --cluster-only`", crd.Ref())
	case code != http.StatusCreated:
		return fmt.Errorf("create %s: %s", crd.Ref(), message)
	}
	c.kinds = append(c.kinds, crds+"/"+crd.Name())
	for _, path := range servedPaths(crd) {
		if err := c.await(ctx, "the cluster serves "+crd.Name(), path, http.StatusOK); err != nil {
			return err
		}
	}
	return nil
}

// servedPaths returns where the kinds of a CRD are served.
func servedPaths(crd *object.Object) []string {
	fields, err := object.Decode(crd.JSON())
	if err != nil {
		return nil // It was parsed before.
	}
	group, _ := object.FieldAt(fields, "spec", "group").(string)
	plural, _ := object.FieldAt(fields, "spec", "names", "plural").(string)
	versions, _ := object.FieldAt(fields, "spec", "versions").([]any)
	var paths []string
	for _, each := range versions {
		version, _ := each.(map[string]any)
		if name, _ := version["name"].(string); version["served"] == true {
			paths = append(paths, object.Resource{Group: group, Version: name, Plural: plural}.Path("", ""))
		}
	}
	return paths
}

// await waits until a path gets a response with a code.
func (c *Cluster) await(ctx context.Context, what, path string, code int) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		got, _, err := c.send(ctx, http.MethodGet, path, "", nil)
		if got == code {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, errors.Join(ctx.Err(), err))
		case <-time.After(poll):
		}
	}
}

// send sends a request, and returns the code of the response and the message of an error.
func (c *Cluster) send(ctx context.Context, method, path, contentType string, body []byte) (code int, message string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body)) //nolint:gosec // forward sends it to the cluster only.
	if err != nil {
		return 0, "", err
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := c.forward(ctx, r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }() // Reading it has shown all errors.
	data, err := io.ReadAll(response.Body)
	if fields, decodeErr := object.Decode(data); decodeErr == nil && err == nil {
		message, _ = fields["message"].(string)
	}
	return response.StatusCode, message, err
}

// forward sends a request to the cluster.
func (c *Cluster) forward(ctx context.Context, r *http.Request) (*http.Response, error) {
	r = r.WithContext(ctx)
	target := *c.host
	target.Path, target.RawQuery = strings.TrimSuffix(c.host.Path, "/")+r.URL.Path, r.URL.RawQuery
	r.URL, r.Host = &target, ""
	return c.client.Do(r) //nolint:gosec // The user names the cluster.
}

// Begin creates a namespace for each name of a story.
func (c *Cluster) Begin(ctx context.Context, names []string) (map[string]string, error) {
	namespaces := map[string]string{}
	for _, name := range names {
		created, err := c.createNamespace(ctx)
		if err != nil {
			return nil, errors.Join(err, c.End(ctx))
		}
		namespaces[name] = created
	}
	return namespaces, nil
}

func (c *Cluster) createNamespace(ctx context.Context) (string, error) {
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"generateName":"setpoint-story-","labels":{%q:%q}}}`, Label, c.options.Story)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/namespaces", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.forward(ctx, r)
	if err != nil {
		return "", fmt.Errorf("create a namespace: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // Reading it has shown all errors.
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("create a namespace: %w", err)
	}
	o, err := object.Parse(data)
	if err != nil || response.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("create a namespace: the API server responds %d: %s", response.StatusCode, data)
	}
	c.namespaces = append(c.namespaces, o.Name())
	// Without its ServiceAccount no pod can be created in a namespace.
	account := "/api/v1/namespaces/" + o.Name() + "/serviceaccounts/default"
	return o.Name(), c.await(ctx, "the namespace has its default ServiceAccount", account, http.StatusOK)
}

// End removes the objects and the namespaces that were created since Begin, also if the context has ended.
func (c *Cluster) End(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*limit)
	defer cancel()
	var problems []error
	for _, path := range slices.Backward(c.created) {
		// The processes that have set finalizers are gone.
		_, _, err := c.send(ctx, http.MethodPatch, path, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		problems = append(problems, err, c.remove(ctx, path))
	}
	for _, name := range c.namespaces {
		problems = append(problems, c.remove(ctx, "/api/v1/namespaces/"+name))
	}
	for _, name := range c.namespaces {
		problems = append(problems, c.await(ctx, "the namespace "+name+" is gone", "/api/v1/namespaces/"+name, http.StatusNotFound))
	}
	c.created, c.namespaces = nil, nil
	return errors.Join(problems...)
}

// Close removes the CRDs, also if the context has ended.
func (c *Cluster) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*limit)
	defer cancel()
	problems := []error{c.End(ctx)}
	for _, path := range c.kinds {
		problems = append(problems, c.remove(ctx, path), c.await(ctx, path+" is gone", path, http.StatusNotFound))
	}
	c.kinds = nil
	return errors.Join(problems...)
}

// remove deletes what is at a path, if it exists.
func (c *Cluster) remove(ctx context.Context, path string) error {
	body := []byte(`{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background","gracePeriodSeconds":0}`)
	code, message, err := c.send(ctx, http.MethodDelete, path, "application/json", body)
	if err == nil && code >= http.StatusBadRequest && code != http.StatusNotFound && code != http.StatusConflict {
		err = errors.New(message)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}
