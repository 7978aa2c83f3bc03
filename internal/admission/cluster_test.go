package admission_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// fakeAPIServer is an API server in miniature: it stores objects by their paths, lets
// them be watched by labels and by name, and minds the versions of updates.
type fakeAPIServer struct {
	t    *testing.T
	http *httptest.Server

	mu       sync.Mutex
	version  int
	objects  map[string]*unstructured.Unstructured
	watchers map[chan string]watchRequest
	// writes are the requests that were carried out, such as "POST /api/v1/…".
	writes []string
	// refuse returns the error with which a request fails; it is called with the lock held.
	refuse func(*http.Request) error
	// lease handles a dry run of creating a Lease; nil allows it.
	lease func(w http.ResponseWriter, labels map[string]string) error
}

// watchRequest is what a watcher wants to know.
type watchRequest struct {
	collection string
	labels     labels.Selector
	fields     fields.Selector
}

func (w watchRequest) matches(path string, o *unstructured.Unstructured) bool {
	return w.collection == path[:strings.LastIndex(path, "/")] && w.labels.Matches(labels.Set(o.GetLabels())) &&
		w.fields.Matches(fields.Set{"metadata.name": o.GetName()})
}

func newFakeAPIServer(t *testing.T) *fakeAPIServer {
	c := &fakeAPIServer{t: t, version: 1, objects: map[string]*unstructured.Unstructured{}, watchers: map[chan string]watchRequest{}}
	c.http = httptest.NewServer(c)
	t.Cleanup(c.http.Close)
	return c
}

func (c *fakeAPIServer) client() rest.Interface {
	c.t.Helper()
	return must.Get(rest.UnversionedRESTClientFor(&rest.Config{
		Host: c.http.URL, QPS: -1,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})).In(c.t)
}

func (c *fakeAPIServer) store() *cache.Cache {
	s := cache.New(c.client(), cache.Options{
		Log: slog.New(slog.DiscardHandler), MinBackoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond,
	})
	c.t.Cleanup(s.Close)
	return s
}

func (c *fakeAPIServer) with(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// written are the writes so far.
func (c *fakeAPIServer) written() (writes []string) {
	c.with(func() { writes = append(writes, c.writes...) })
	return writes
}

// get is what is stored at a path; nil for nothing.
func (c *fakeAPIServer) get(path string) (o *unstructured.Unstructured) {
	c.with(func() {
		if stored := c.objects[path]; stored != nil {
			o = stored.DeepCopy()
		}
	})
	return o
}

// edit changes the object at a path, as another client does.
func (c *fakeAPIServer) edit(path string, change func(o *unstructured.Unstructured)) {
	c.with(func() {
		o := c.objects[path].DeepCopy()
		change(o)
		c.put(path, o)
	})
}

// setSecret changes a key of the Secret, as another client does.
func (c *fakeAPIServer) setSecret(key, value string) {
	c.edit(secretPath, func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, base64.StdEncoding.EncodeToString([]byte(value)), "data", key)
	})
}

// remove deletes the object at a path, as another client does.
func (c *fakeAPIServer) remove(path string) { c.with(func() { c.delete(path) }) }

// create stores an object, as another client does.
func (c *fakeAPIServer) create(path, text string) {
	o := &unstructured.Unstructured{}
	must.Succeed(c.t, o.UnmarshalJSON([]byte(text)))
	c.with(func() { c.put(path, o) })
}

// put stores an object and tells those who watch it, or do not any more.
func (c *fakeAPIServer) put(path string, o *unstructured.Unstructured) {
	before := c.objects[path]
	c.version++
	o.SetResourceVersion(fmt.Sprint(c.version))
	if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprint("uid-", c.version)))
	}
	c.objects[path] = o
	for watcher, w := range c.watchers {
		was, is := before != nil && w.matches(path, before), w.matches(path, o)
		switch {
		case is && was:
			watcher <- line("MODIFIED", o)
		case is:
			watcher <- line("ADDED", o)
		case was:
			watcher <- line("DELETED", o)
		}
	}
}

func (c *fakeAPIServer) delete(path string) {
	c.version++
	o := c.objects[path]
	o.SetResourceVersion(fmt.Sprint(c.version))
	delete(c.objects, path)
	for watcher, w := range c.watchers {
		if w.matches(path, o) {
			watcher <- line("DELETED", o)
		}
	}
}

func line(kind string, o *unstructured.Unstructured) string {
	text, _ := json.Marshal(o)
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, text)
}

func (c *fakeAPIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "true" {
		c.watch(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	response, err := c.respond(w, r, body)
	if err != nil {
		statusError(w, err)
		return
	}
	_ = json.NewEncoder(w).Encode(response)
}

func statusError(w http.ResponseWriter, err error) {
	status := err.(apierrors.APIStatus).Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

func (c *fakeAPIServer) respond(w http.ResponseWriter, r *http.Request, body []byte) (*unstructured.Unstructured, error) {
	if c.refuse != nil {
		if err := c.refuse(r); err != nil {
			return nil, err
		}
	}
	o := &unstructured.Unstructured{}
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		if err := o.UnmarshalJSON(body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	path := r.URL.Path
	if r.Method == http.MethodPost {
		path += "/" + o.GetName()
	}
	live := c.objects[path]
	resource := schema.GroupResource{Resource: strings.Split(path, "/")[len(strings.Split(path, "/"))-2]}
	switch {
	case r.URL.Query().Get("dryRun") != "":
		if c.lease == nil {
			return o, nil
		}
		return o, c.lease(w, o.GetLabels())
	case r.Method == http.MethodPost && live != nil:
		return nil, apierrors.NewAlreadyExists(resource, o.GetName())
	case r.Method == http.MethodGet && strings.HasSuffix(path, "webhookconfigurations"):
		return c.list(r)
	case r.Method != http.MethodPost && live == nil:
		return nil, apierrors.NewNotFound(resource, path[strings.LastIndex(path, "/")+1:])
	case r.Method == http.MethodGet:
		return live, nil
	case r.Method == http.MethodDelete && preconditionFails(body, live):
		return nil, apierrors.NewConflict(resource, live.GetName(), fmt.Errorf("the precondition is not met"))
	case r.Method == http.MethodDelete:
		c.writes = append(c.writes, r.Method+" "+path)
		c.delete(path)
		return live, nil
	case r.Method == http.MethodPut && o.GetResourceVersion() != live.GetResourceVersion():
		return nil, apierrors.NewConflict(resource, o.GetName(), fmt.Errorf("the object has been modified"))
	}
	c.writes = append(c.writes, r.Method+" "+path)
	c.put(path, o)
	return o, nil
}

// preconditionFails says that a deletion is of another version than the live one.
func preconditionFails(body []byte, live *unstructured.Unstructured) bool {
	var o metav1.DeleteOptions
	if json.Unmarshal(body, &o) != nil || o.Preconditions == nil || o.Preconditions.ResourceVersion == nil {
		return false
	}
	return *o.Preconditions.ResourceVersion != live.GetResourceVersion()
}

// list is a collection, for those who do not watch.
func (c *fakeAPIServer) list(r *http.Request) (*unstructured.Unstructured, error) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	items := []any{}
	w := watchRequest{collection: r.URL.Path, labels: selector, fields: fields.Everything()}
	for path, o := range c.objects {
		if w.matches(path, o) {
			items = append(items, o.Object)
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "List", "items": items}}, nil
}

// watch streams the existing objects and their changes.
func (c *fakeAPIServer) watch(w http.ResponseWriter, r *http.Request) {
	watcher, first, err := c.open(r)
	if err != nil {
		statusError(w, err)
		return
	}
	defer c.with(func() { delete(c.watchers, watcher) })
	for text := first; ; {
		_, _ = io.WriteString(w, text)
		w.(http.Flusher).Flush()
		select {
		case text = <-watcher:
		case <-r.Context().Done():
			return
		}
	}
}

func (c *fakeAPIServer) open(r *http.Request) (watcher chan string, first string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		if err := c.refuse(r); err != nil {
			return nil, "", err
		}
	}
	w := watchRequest{collection: r.URL.Path}
	if w.labels, err = labels.Parse(r.URL.Query().Get("labelSelector")); err != nil {
		return nil, "", apierrors.NewBadRequest(err.Error())
	}
	if w.fields, err = fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err != nil {
		return nil, "", apierrors.NewBadRequest(err.Error())
	}
	watcher = make(chan string, 1000)
	c.watchers[watcher] = w
	if r.URL.Query().Get("sendInitialEvents") != "true" {
		return watcher, "", nil
	}
	for path, o := range c.objects {
		if w.matches(path, o) {
			first += line("ADDED", o)
		}
	}
	return watcher, first + fmt.Sprintf(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", c.version), nil
}

// forbidden refuses what a request is for.
func forbidden(what string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: what}, "", fmt.Errorf("no access"))
}
