package related

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var (
	configMaps = object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	secrets    = object.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
	namespaces = object.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}
	widgets    = object.Resource{Group: "example.com", Version: "v1", Plural: "widgets", Kind: "Widget"}
)

var errNotServed = fmt.Errorf("not served by the API server")

func resolve(_ context.Context, apiVersion, plural string) (object.Resource, error) {
	for _, kind := range []object.Resource{configMaps, secrets, namespaces, widgets} {
		if kind.APIVersion() == apiVersion && kind.Plural == plural {
			return kind, nil
		}
	}
	return object.Resource{}, fmt.Errorf("%s of %s: %w", plural, apiVersion, errNotServed)
}

// name identifies an object.
type name struct{ plural, namespace, name string }

// testObject is an object.
type testObject struct {
	name
	labels map[string]string
	// content is what tests change besides labels.
	content string
}

func (o testObject) json(version uint64, bare bool) string {
	kind := map[string]object.Resource{"configmaps": configMaps, "secrets": secrets, "namespaces": namespaces, "widgets": widgets}[o.plural]
	marks, _ := json.Marshal(o.labels)
	meta := fmt.Sprintf(`"metadata":{"name":%q,"namespace":%q,"uid":"uid of %v","resourceVersion":"%d","labels":%s}`,
		o.name.name, o.namespace, o.name, version, marks)
	if bare {
		return fmt.Sprintf(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",%s}`, meta)
	}
	return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,%s,"content":%q}`, kind.Kind, kind.APIVersion(), meta, o.content)
}

// server is a fake API server for watches by namespace, name and labels.
type server struct {
	t    testing.TB
	http *httptest.Server

	mu       sync.Mutex
	version  uint64
	objects  map[name]testObject
	versions map[name]uint64
	watchers map[*watcher]bool
	// opened are all watches ever opened.
	opened []string
	// refuse rejects watches.
	refuse func(path string) bool
	// slow holds the lists of watches back.
	slow func(path string) bool
}

// watcher is an open watch.
type watcher struct {
	path, plural, namespace, name string
	labels                        labels.Selector
	bare, held                    bool
	backlog                       []string
	// listed is how much of the backlog is the list.
	listed int
	lines  chan string
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{
		t: t, version: 1, objects: map[name]testObject{}, versions: map[name]uint64{}, watchers: map[*watcher]bool{},
	}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.http.Close)
	return s
}

// store returns a cache of the server.
func (s *server) store() *cache.Cache {
	s.t.Helper()
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{
		Host: s.http.URL, QPS: -1,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})).In(s.t)
	shared := cache.New(client, cache.Options{
		Log: slog.New(slog.DiscardHandler), MinBackoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond,
	})
	s.t.Cleanup(shared.Close)
	return shared
}

func (s *server) with(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *server) put(o testObject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, existed := s.objects[o.name]
	s.version++
	s.objects[o.name], s.versions[o.name] = o, s.version
	for w := range s.watchers {
		was, is := existed && w.selects(old), w.selects(o)
		switch {
		case was && is:
			w.send("MODIFIED", o.json(s.version, w.bare))
		case was:
			w.send("DELETED", old.json(s.version, w.bare))
		case is:
			w.send("ADDED", o.json(s.version, w.bare))
		}
	}
}

func (s *server) delete(n name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, existed := s.objects[n]
	if !existed {
		return
	}
	s.version++
	delete(s.objects, n)
	for w := range s.watchers {
		if w.selects(old) {
			w.send("DELETED", old.json(s.version, w.bare))
		}
	}
}

// bookmark sends a bookmark to every watch.
func (s *server) bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		w.send("BOOKMARK", fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"}}`, s.version))
	}
}

func (s *server) current() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (w *watcher) selects(o testObject) bool {
	return o.plural == w.plural && (w.namespace == "" || w.namespace == o.namespace) &&
		(w.name == "" || w.name == o.name.name) && w.labels.Matches(labels.Set(o.labels))
}

func (w *watcher) send(kind, object string) {
	line := fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
	if w.held {
		w.backlog = append(w.backlog, line)
		return
	}
	w.lines <- line
}

// ServeHTTP serves streaming lists only.
func (s *server) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w := watcherOf(r)
	s.mu.Lock()
	// After a rejection the reflector tries a plain list.
	if s.refuse != nil && s.refuse(w.path) || r.URL.Query().Get("sendInitialEvents") != "true" {
		s.mu.Unlock()
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(http.StatusForbidden)
		fmt.Fprint(out, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"not for you"}`)
		return
	}
	s.opened = append(s.opened, w.path)
	w.held = s.slow != nil && s.slow(w.path)
	s.watchers[w] = true
	s.list(w)
	s.mu.Unlock()
	defer s.with(func() { delete(s.watchers, w) })
	out.Header().Set("Content-Type", "application/json")
	out.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case line := <-w.lines:
			fmt.Fprint(out, line)
			out.(http.Flusher).Flush()
		}
	}
}

func watcherOf(r *http.Request) *watcher {
	query := r.URL.Query()
	w := &watcher{lines: make(chan string, 10000), bare: strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata")}
	w.labels, _ = labels.Parse(query.Get("labelSelector"))
	w.name = strings.TrimPrefix(query.Get("fieldSelector"), "metadata.name=")
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/apis/example.com/v1/"), "/")
	if len(parts) == 3 {
		w.namespace = parts[1]
	}
	w.plural = parts[len(parts)-1]
	w.path = w.plural
	for _, more := range []struct{ word, value string }{{" in ", w.namespace}, {" named ", w.name}, {" with ", w.labels.String()}} {
		if more.value != "" {
			w.path += more.word + more.value
		}
	}
	if w.bare {
		w.path = "metadata of " + w.path
	}
	return w
}

func (s *server) list(w *watcher) {
	for n, o := range s.objects {
		if w.selects(o) {
			w.send("ADDED", o.json(s.versions[n], w.bare))
		}
	}
	w.send("BOOKMARK", fmt.Sprintf(
		`{"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}`, s.version))
	w.listed = len(w.backlog)
}

// release sends everything that was held back.
func (s *server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		w.held = false
		w.flush(len(w.backlog))
	}
}

// flush sends the first n lines that were held back.
func (w *watcher) flush(n int) {
	for _, line := range w.backlog[:n] {
		w.lines <- line
	}
	w.backlog, w.listed = w.backlog[n:], 0
}

// open returns the open watches.
func (s *server) open() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	paths := map[string]bool{}
	for w := range s.watchers {
		paths[w.path] = true
	}
	return paths
}

func (s *server) everOpened(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.opened, path)
}

// all returns all objects.
func (s *server) all() map[name]testObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}
