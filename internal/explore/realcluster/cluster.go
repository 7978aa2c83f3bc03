// Package realcluster makes room for a story on a real API server: the kinds of its files, namespaces of its own, and a
// client that writes nowhere else and remembers what to remove.
//
// It knows no steps: package explore makes them.
package realcluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Label has the name of the story on the CRDs and namespaces of its replay. Cleanup finds by it what a killed process
// has left.
const (
	Label   = "test.setpoint.dev/story"
	Cleanup = "kubectl delete crds,namespaces -l " + Label
)

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
	// lost is set once the API server did not respond while something was removed.
	lost bool
}

// How long the cluster may take until something is there or gone, how often the replay looks, and how long the API server
// may take for a response, or be gone.
const (
	limit       = 60 * time.Second
	poll        = 50 * time.Millisecond
	unreachable = 10 * time.Second
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
	labeled, err := crd.With(fmt.Appendf(nil, "%q", c.labelValue()), "metadata", "labels", Label)
	if err != nil {
		return err
	}
	code, message, err := c.send(ctx, http.MethodPost, crds, "application/json", labeled.JSON())
	switch {
	case err != nil:
		return fmt.Errorf("create %s: %w", crd.Ref(), err)
	case code == http.StatusConflict:
		return c.exists(ctx, crd)
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

// exists returns why a CRD cannot be created that exists.
func (c *Cluster) exists(ctx context.Context, crd *object.Object) error {
	code, data, err := c.read(ctx, http.MethodGet, crds+"/"+crd.Name(), "", nil)
	if err != nil {
		return fmt.Errorf("read %s: %w", crd.Ref(), err)
	}
	if there, err := object.Parse(data); code == http.StatusOK && err == nil && there.Labels().Has(Label) {
		return fmt.Errorf("%s is that of another replay, which runs, or was killed; then remove what it has left: %s", crd.Ref(), Cleanup)
	}
	return fmt.Errorf("%s exists in the cluster, and its controller would change what the story is about; use a cluster without it, "+
		"such as that of `setpoint dev --cluster-only`", crd.Ref())
}

// labelValue returns the name of the story with the characters and the length that a label may have.
func (c *Cluster) labelValue() string {
	value := strings.Map(func(r rune) rune {
		if r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.", r)) {
			return r
		}
		return '-'
	}, c.options.Story)
	return strings.Trim(value[:min(len(value), maxLabelValue)], "-_.")
}

// maxLabelValue is the length of a label that Kubernetes allows.
const maxLabelValue = 63

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

// await waits until a path gets a response with a code. It ends early if the API server stays gone.
func (c *Cluster) await(ctx context.Context, what, path string, code int) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reached := time.Now()
	for {
		got, _, err := c.send(ctx, http.MethodGet, path, "", nil)
		switch {
		case got == code:
			return nil
		case err == nil:
			reached = time.Now()
		case time.Since(reached) > unreachable && ctx.Err() == nil:
			return fmt.Errorf("wait until %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, cmp.Or(err, ctx.Err()))
		case <-time.After(poll):
		}
	}
}

// send sends a request, and returns the code of the response and the message of an error.
func (c *Cluster) send(ctx context.Context, method, path, contentType string, body []byte) (code int, message string, err error) {
	code, data, err := c.read(ctx, method, path, contentType, body)
	if fields, decodeErr := object.Decode(data); decodeErr == nil && err == nil {
		message, _ = fields["message"].(string)
	}
	return code, message, err
}

// read sends a request, and returns the code and the body of the response.
func (c *Cluster) read(ctx context.Context, method, path, contentType string, body []byte) (code int, data []byte, err error) {
	within, cancel := context.WithTimeout(ctx, unreachable)
	defer cancel()
	r, err := http.NewRequestWithContext(within, method, path, //nolint:gosec // forward sends it to the cluster only.
		bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := c.forward(within, r)
	if err != nil {
		return 0, nil, errUnreachable{err}
	}
	defer func() { _ = response.Body.Close() }() // Reading it has shown all errors.
	if data, err = io.ReadAll(response.Body); err != nil {
		return 0, nil, errUnreachable{err}
	}
	return response.StatusCode, data, nil
}

// errUnreachable is an error of the connection: the API server has not responded.
type errUnreachable struct{ error }

func (e errUnreachable) Unwrap() error { return e.error }

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
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"generateName":"setpoint-story-","labels":{%q:%q}}}`,
		Label, c.labelValue())
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
