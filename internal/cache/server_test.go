package cache

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var configMaps = object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}

// server is an API server that can misbehave.
type server struct {
	t    *testing.T
	http *httptest.Server
	// opened receives every request, closed an entry for every watch that ended.
	opened chan *http.Request
	closed chan struct{}

	mu       sync.Mutex
	version  uint64
	objects  map[key]testObject
	lines    []line
	watchers map[chan string]bool

	// Faults, guarded by mu.
	reject    func(*http.Request) *metav1.Status
	compacted uint64
	pageSize  int
	noStreams bool
	// hang leaves requests without headers; stall sends half of their body, with no end.
	hang, stall func(*http.Request) bool
	// kind replaces the kind of watched objects, if set.
	kind string
}

// line is an event of the history.
type line struct {
	version uint64
	text    string
}

// Lines that end a watch: cleanly, or within an event.
const (
	closeConnection = "hang up"
	breakConnection = "break"
)

func newServer(t *testing.T) *server {
	s := &server{
		t: t, opened: make(chan *http.Request, 1000), closed: make(chan struct{}, 1000),
		version: 1, objects: map[key]testObject{}, watchers: map[chan string]bool{},
	}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.http.Close)
	return s
}

func (s *server) client() rest.Interface {
	s.t.Helper()
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{
		Host: s.http.URL, QPS: -1,
		ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})).In(s.t)
	return client
}

// store returns a Cache with short delays.
func (s *server) store(options Options) *Cache {
	options.Log = slog.New(slog.DiscardHandler)
	options.MinBackoff, options.MaxBackoff = time.Millisecond, 4*time.Millisecond
	store := New(s.client(), options)
	s.t.Cleanup(store.Close)
	return store
}

func (s *server) locked(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// refuse rejects some requests with a status.
func (s *server) refuse(status metav1.Status, which func(*http.Request) bool) {
	s.reject = func(r *http.Request) *metav1.Status {
		if !which(r) {
			return nil
		}
		refusal := status
		return &refusal
	}
}

// put stores an object and notifies the watchers.
func (s *server) put(o testObject) *object.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o.version = s.version
	kind := "MODIFIED"
	if _, found := s.objects[o.key]; !found {
		kind = "ADDED"
	}
	s.objects[o.key] = o
	s.emit(kind, o.json())
	return o.parse(s.t)
}

func (s *server) delete(name key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o := s.objects[name]
	o.version = s.version
	delete(s.objects, name)
	s.emit("DELETED", o.json())
}

// emit appends an event. The caller holds the lock.
func (s *server) emit(kind, json string) {
	text := fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, json)
	s.lines = append(s.lines, line{s.version, text})
	s.broadcast(text)
}

func (s *server) broadcast(text string) {
	for watcher := range s.watchers {
		watcher <- text
	}
}

// send sends a text to the watchers without storing it.
func (s *server) send(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broadcast(text)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.opened <- r
	s.mu.Lock()
	refuse, hangs, stalls := s.reject, s.hang, s.stall
	s.mu.Unlock()
	if hangs != nil && hangs(r) {
		<-r.Context().Done()
		return
	}
	if stalls != nil && stalls(r) {
		fmt.Fprint(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	if refuse != nil {
		if status := refuse(r); status != nil {
			writeStatus(w, int(status.Code), status)
			return
		}
	}
	switch {
	case r.URL.Query().Get("watch") != "true":
		s.list(w, r)
	case r.URL.Query().Get("sendInitialEvents") == "true" && s.noStreams:
		writeStatus(w, http.StatusUnprocessableEntity, &metav1.Status{
			Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
			Message: "sendInitialEvents is forbidden",
		})
	default:
		s.watch(w, r)
	}
}

func writeStatus(w http.ResponseWriter, code int, status *metav1.Status) {
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status)
}

// list writes a page. As in an API server, its items have no kind.
func (s *server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.SortedFunc(maps.Keys(s.objects), func(a, b key) int {
		return strings.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name)
	})
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	to, next := len(names), ""
	if s.pageSize > 0 && from+s.pageSize < to {
		to = from + s.pageSize
		next = strconv.Itoa(to)
	}
	var items []string
	for _, name := range names[from:to] {
		items = append(items, strings.Replace(s.objects[name].json(), `"apiVersion":"v1","kind":"ConfigMap",`, "", 1))
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":%q},"items":[%s]}`,
		s.version, next, strings.Join(items, ","))
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	lines := make(chan string, 1000)
	s.mu.Lock()
	first := s.initialEvents(r)
	s.watchers[lines] = true
	s.mu.Unlock()
	defer func() {
		s.locked(func() { delete(s.watchers, lines) })
		s.closed <- struct{}{}
	}()
	w.Header().Set("Content-Type", "application/json")
	for _, text := range first {
		fmt.Fprint(w, text)
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case text := <-lines:
			if text == closeConnection {
				return
			}
			if text == breakConnection {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, text)
			w.(http.Flusher).Flush()
		}
	}
}

// initialEvents returns the first events of a watch. The caller holds the lock.
func (s *server) initialEvents(r *http.Request) []string {
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		return append(s.addedEvents(), fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{`+
			`"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", s.version))
	}
	since, _ := strconv.ParseUint(r.URL.Query().Get("resourceVersion"), 10, 64)
	if since < s.compacted {
		return []string{expired}
	}
	var texts []string
	for _, l := range s.lines {
		if l.version > since {
			texts = append(texts, l.text)
		}
	}
	return texts
}

const expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}` + "\n"

func (s *server) addedEvents() []string {
	var texts []string
	for _, o := range s.objects {
		text := o.json()
		if s.kind != "" {
			text = strings.Replace(text, `"v1","kind":"ConfigMap"`, fmt.Sprintf(`"meta.k8s.io/v1","kind":%q`, s.kind), 1)
		}
		texts = append(texts, fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n", text))
	}
	return texts
}

// request returns the next request that matches.
func (s *server) request(is func(*http.Request) bool) *http.Request {
	s.t.Helper()
	for {
		if r := receive(s.t, s.opened); is(r) {
			return r
		}
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func isAny(*http.Request) bool      { return true }
func isWatch(r *http.Request) bool  { return r.URL.Query().Get("watch") == "true" }
func isList(r *http.Request) bool   { return !isWatch(r) }
func isStream(r *http.Request) bool { return r.URL.Query().Get("sendInitialEvents") == "true" }
func isResume(r *http.Request) bool { return isWatch(r) && !isStream(r) }
