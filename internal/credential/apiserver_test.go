package credential_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// apiServer serves Secrets and ConfigMaps, and only watches of single objects.
type apiServer struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	version  int
	objects  map[string]string
	watchers map[chan string]string
	// forbidden lists the objects that the client may not read.
	forbidden map[string]bool
}

func newAPI(t *testing.T) *apiServer {
	a := &apiServer{
		t: t, version: 1, objects: map[string]string{},
		watchers: map[chan string]string{}, forbidden: map[string]bool{},
	}
	a.server = httptest.NewServer(a)
	t.Cleanup(a.server.Close)
	return a
}

func (a *apiServer) store() *cache.Cache {
	a.t.Helper()
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{
		Host: a.server.URL, QPS: -1,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})).In(a.t)
	s := cache.New(client, cache.Options{
		Log: slog.New(slog.DiscardHandler), MinBackoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond,
	})
	a.t.Cleanup(s.Close)
	return s
}

// put stores an object by name, such as "secrets/ops/hook-ca", with fields such as
// {"data": {"ca.crt": …}}.
func (a *apiServer) put(name string, fields map[string]any) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	parts := strings.Split(name, "/")
	object := map[string]any{
		"apiVersion": "v1", "kind": map[string]string{"secrets": "Secret", "configmaps": "ConfigMap"}[parts[0]],
	}
	maps.Copy(object, fields)
	a.version++
	object["metadata"] = map[string]any{
		"namespace": parts[1], "name": parts[2], "uid": name, "resourceVersion": fmt.Sprint(a.version),
		"annotations": map[string]string{"version": fmt.Sprint(a.version)},
	}
	text := must.Get(json.Marshal(object)).In(a.t)
	kind := "ADDED"
	if _, found := a.objects[name]; found {
		kind = "MODIFIED"
	}
	a.objects[name] = string(text)
	a.sendEvent(name, kind)
}

func (a *apiServer) secret(name string, data map[string]string) {
	a.t.Helper()
	encoded := map[string][]byte{}
	for key, value := range data {
		encoded[key] = []byte(value)
	}
	a.put("secrets/"+name, map[string]any{"data": encoded})
}

func (a *apiServer) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.sendEvent(name, "DELETED")
	delete(a.objects, name)
}

// sendEvent requires the lock.
func (a *apiServer) sendEvent(name, kind string) {
	for watcher, watched := range a.watchers {
		if watched == name {
			watcher <- fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, a.objects[name])
		}
	}
}

// setAllowed grants or revokes access to an object, and ends its watches.
func (a *apiServer) setAllowed(name string, allowed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forbidden[name] = !allowed
	for watcher, watched := range a.watchers {
		if watched == name {
			close(watcher)
			delete(a.watchers, watcher)
		}
	}
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	namespace, resource, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/"), "/")
	only, named := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	if !ok || !named {
		a.t.Errorf("request for more than one object: %s", r.URL)
	}
	name := resource + "/" + namespace + "/" + only
	watcher, first := a.open(name, r)
	if watcher == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"%s is forbidden"}`, name)
		return
	}
	defer a.removeWatcher(watcher)
	for line, open := first, true; open; {
		_, _ = fmt.Fprint(w, line)
		w.(http.Flusher).Flush()
		select {
		case line, open = <-watcher:
		case <-r.Context().Done():
			return
		}
	}
}

// open starts a watch with the current state; it returns nil if access is forbidden.
func (a *apiServer) open(name string, r *http.Request) (watcher chan string, first string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.forbidden[name] {
		return nil, ""
	}
	watcher = make(chan string, 100)
	a.watchers[watcher] = name
	if r.URL.Query().Get("sendInitialEvents") != "true" {
		return watcher, ""
	}
	if o, found := a.objects[name]; found {
		first = `{"type":"ADDED","object":` + o + "}\n"
	}
	return watcher, first + fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", a.version)
}

func (a *apiServer) removeWatcher(watcher chan string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.watchers, watcher)
}

// watched lists the active watches.
func (a *apiServer) watched() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, name := range a.watchers {
		names = append(names, name)
	}
	return names
}
