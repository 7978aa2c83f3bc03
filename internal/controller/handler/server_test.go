package handler

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

var (
	rates      = object.Resource{Group: "example.org", Version: "v1", Plural: "rates", Kind: "Rate", Namespaced: true, Status: true, Custom: true}
	configMaps = object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	pods       = object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
)

// server is a fake API server with what handlers need: objects with versions and generations,
// merge patches with preconditions, a simple server-side apply, deletions with finalizers,
// evictions, lists and watches.
type server struct {
	t    *testing.T
	http *httptest.Server

	mu      sync.Mutex
	version int
	uids    int
	objects map[string]map[string]any // by path
	history []change
	changed chan struct{} // closed and replaced by each change
	// writes are all writes, as "PATCH rates/eur" with the body.
	writes []string
	// traceparents are those of the requests that write, in their order.
	traceparents []string
	tracer       *trace.Tracer
	// compacted is the version that a watch must have seen.
	compacted int
	// reject may return a status code for a write, and refusal is the message then; "refused" if empty.
	reject  func(method, path string, body map[string]any) int
	refusal string
	// log is that of the controller; none if nil.
	log *slog.Logger
	// terminating means that the namespace is terminating: nothing can be created in it.
	terminating bool
	// admit may change an object before it is stored.
	admit func(path string, o map[string]any)
	// backends are the processes of handlers.
	backends *backend.Backends
	// clockOffset is added to the clock of the controller.
	clockOffset atomic.Int64
}

type change struct {
	version int
	kind    string
	path    string
	object  map[string]any
}

func newServer(t *testing.T) *server {
	s := newBubbleServer(t)
	s.http = httptest.NewServer(s)
	t.Cleanup(s.http.Close)
	return s
}

func (s *server) client() rest.Interface {
	return s.clientVia(s.http.URL, nil)
}

// clientVia returns a client with a transport; the usual one if nil.
func (s *server) clientVia(host string, transport http.RoundTripper) rest.Interface {
	return must.Get(rest.UnversionedRESTClientFor(&rest.Config{
		Host: host, Transport: transport, QPS: -1, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})).In(s.t)
}

// setReject sets reject while a controller runs.
func (s *server) setReject(reject func(method, path string, body map[string]any) int) {
	s.set(func() { s.reject = reject })
}

// rejects returns a reject that refuses some writes with a code.
func rejects(code int, which func(method, path string, body map[string]any) bool) func(method, path string, body map[string]any) int {
	return func(method, path string, body map[string]any) int {
		if which(method, path, body) {
			return code
		}
		return 0
	}
}

// clock returns the time plus clockOffset.
func (s *server) clock() time.Time { return time.Now().Add(time.Duration(s.clockOffset.Load())) }

func (s *server) tools(o controller.Observer) controller.Dependencies {
	return s.toolsFor(s.client(), o)
}

func (s *server) toolsFor(client rest.Interface, o controller.Observer) controller.Dependencies {
	log := cmp.Or(s.log, slog.New(slog.DiscardHandler))
	st := cache.New(client, cache.Options{Log: log, MinBackoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond})
	s.t.Cleanup(st.Close)
	if s.backends == nil {
		s.backends = backend.New(log, func(backend.Result) {})
		s.backends.SetKnown()
	}
	return controller.Dependencies{Store: st, Backends: s.backends, Writer: apply.New(client, apply.Options{}), Observer: o, Log: log, Tracer: s.tracer, Now: s.clock}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var sent map[string]any
	if len(body) > 0 {
		if err := json.Unmarshal(body, &sent); err != nil {
			s.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
	}
	if r.Method == http.MethodGet && isCollection(r.URL.Path) {
		if r.URL.Query().Get("watch") == "true" {
			s.watch(w, r)
			return
		}
		s.list(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	code, response := s.respond(r, sent)
	writeJSON(w, code, response)
}

func writeJSON(w http.ResponseWriter, code int, response any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(response)
}

func isCollection(path string) bool {
	last := path[strings.LastIndex(path, "/")+1:]
	return last == "rates" || last == "configmaps" || last == "pods" || last == "secrets"
}

func statusResponse(code int, reason metav1.StatusReason, message string) (int, any) {
	return code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason, Message: message}
}

// respond is called with the lock held.
func (s *server) respond(r *http.Request, sent map[string]any) (int, any) {
	path, posted := r.URL.Path, r.Method == http.MethodPost && isCollection(r.URL.Path)
	if posted {
		path += "/" + fmt.Sprint(meta(sent)["name"])
	}
	if r.Method != http.MethodGet {
		s.writes = append(s.writes, r.Method+" "+shortPath(path)+" "+text(sent))
		s.traceparents = append(s.traceparents, r.Header.Get("Traceparent"))
		if s.reject != nil {
			if code := s.reject(r.Method, path, sent); code != 0 {
				return statusResponse(code, reasons[code], cmp.Or(s.refusal, "refused"))
			}
		}
	}
	target, sub := path, ""
	for _, name := range []string{"/status", "/eviction"} {
		if before, found := strings.CutSuffix(path, name); found {
			target, sub = before, name
		}
	}
	have := s.objects[target]
	if have == nil && !posted && r.Header.Get("Content-Type") != "application/apply-patch+yaml" {
		return statusResponse(http.StatusNotFound, metav1.StatusReasonNotFound, shortPath(target)+" not found")
	}
	if have == nil && s.terminating {
		return namespaceTerminating()
	}
	switch {
	case posted && have != nil:
		return statusResponse(http.StatusConflict, metav1.StatusReasonAlreadyExists, shortPath(target)+" already exists")
	case r.Method == http.MethodGet:
		return http.StatusOK, have
	case r.Method == http.MethodDelete || sub == "/eviction":
		return s.delete(target, have)
	}
	metadata, _ := sent["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion"} {
		if want := metadata[field]; want != nil && have != nil && meta(have)[field] != want {
			return statusResponse(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
		}
	}
	if sub == "/status" {
		sent = map[string]any{"status": sent["status"]}
	} else if strings.Contains(path, "/rates/") {
		sent = maps.Clone(sent)
		delete(sent, "status")
	}
	return http.StatusOK, s.put(target, object.MergePatch(have, sent))
}

var reasons = map[int]metav1.StatusReason{
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusConflict: metav1.StatusReasonConflict,
}

func shortPath(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if isCollection("/"+part) && i+1 < len(parts) {
			return strings.Join(parts[i:], "/")
		}
	}
	return path
}

func text(value any) string {
	data, _ := json.Marshal(value)
	return string(data)
}

func meta(o map[string]any) map[string]any {
	metadata, _ := o["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		o["metadata"] = metadata
	}
	return metadata
}

// put stores an object; nothing changes if it is already stored.
func (s *server) put(path string, o map[string]any) map[string]any {
	var now map[string]any
	_ = json.Unmarshal([]byte(text(o)), &now)
	have := s.objects[path]
	if s.admit != nil {
		s.admit(path, now)
	}
	if text(have) == text(now) {
		return have
	}
	s.version++
	m := meta(now)
	kind := "MODIFIED"
	if have == nil {
		kind = "ADDED"
		s.uids++
		m["uid"], m["generation"] = "uid-"+strconv.Itoa(s.uids), float64(1)
		if m["creationTimestamp"] == nil {
			m["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		}
	} else if text(have["spec"]) != text(now["spec"]) || text(have["data"]) != text(now["data"]) {
		m["generation"], _ = m["generation"].(float64)
		m["generation"] = m["generation"].(float64) + 1
	}
	m["resourceVersion"] = strconv.Itoa(s.version)
	if finalizers, _ := m["finalizers"].([]any); m["deletionTimestamp"] != nil && len(finalizers) == 0 {
		s.remove(path, now)
		return now
	}
	s.objects[path] = now
	s.emit(kind, path, now)
	return now
}

func namespaceTerminating() (int, any) {
	return http.StatusForbidden, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "NamespaceTerminating"}}},
	}
}

func (s *server) delete(path string, have map[string]any) (int, any) {
	if finalizers, _ := meta(have)["finalizers"].([]any); len(finalizers) > 0 {
		return http.StatusOK, s.put(path, object.MergePatch(have, map[string]any{"metadata": map[string]any{"deletionTimestamp": time.Now().UTC().Format(time.RFC3339)}}))
	}
	s.version++
	gone := object.MergePatch(have, map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}})
	s.remove(path, gone)
	return http.StatusOK, gone
}

func (s *server) remove(path string, o map[string]any) {
	delete(s.objects, path)
	s.emit("DELETED", path, o)
}

func (s *server) emit(kind, path string, o map[string]any) {
	s.history = append(s.history, change{s.version, kind, path, o})
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []any
	for _, path := range slices.Sorted(maps.Keys(s.objects)) {
		if o := s.objects[path]; within(r.URL.Path, path) && selects(r, o) {
			items = append(items, o)
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	})
}

// selects reports whether a label selector and a field selector of one term match an object.
func selects(r *http.Request, o map[string]any) bool {
	selector, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
	path, value, given := strings.Cut(r.URL.Query().Get("fieldSelector"), "=")
	return selector.Matches(labelsOf(o)) && (!given || field(o, strings.Split(path, ".")...) == value)
}

func labelsOf(o map[string]any) labels.Set {
	set := labels.Set{}
	given, _ := meta(o)["labels"].(map[string]any)
	for key, value := range given {
		set[key] = value.(string)
	}
	return set
}

// within reports whether an object is in a collection, of one namespace or of all.
func within(collection, path string) bool {
	parent := path[:strings.LastIndex(path, "/")]
	if parent == collection {
		return true
	}
	plural := collection[strings.LastIndex(collection, "/"):]
	return !strings.Contains(collection, "/namespaces/") && strings.HasSuffix(parent, plural)
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		code, status := statusResponse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden")
		writeJSON(w, code, status)
		return
	}
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	left := map[string]bool{} // no longer selected, by path
	for {
		s.mu.Lock()
		if since < s.compacted {
			s.mu.Unlock()
			fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`)
			return
		}
		moved := s.changed
		for _, c := range s.history {
			if c.version <= since || !within(r.URL.Path, c.path) {
				continue
			}
			kind := c.kind
			if !selects(r, c.object) {
				kind = "DELETED"
			}
			if kind != "DELETED" || !left[c.path] {
				fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", kind, text(c.object))
			}
			left[c.path] = kind == "DELETED"
		}
		since = s.version
		s.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-moved:
		case <-r.Context().Done():
			return
		}
	}
}

// Tests use the following functions as a user.

func pathOf(resource object.Resource, name string) string { return resource.Path("town", name) }

// create stores an object as a user, given as JSON without type and name.
func (s *server) create(resource object.Resource, name, body string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var o map[string]any
	must.Succeed(s.t, json.Unmarshal([]byte(body), &o))
	o["apiVersion"], o["kind"] = resource.APIVersion(), resource.Kind
	meta(o)["name"], meta(o)["namespace"] = name, "town"
	return s.put(pathOf(resource, name), o)
}

// edit merges a patch as a user.
func (s *server) edit(resource object.Resource, name, patch string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := pathOf(resource, name)
	s.put(path, object.MergePatch(s.objects[path], object.DecodeOrEmpty([]byte(patch))))
}

// breakWatches ends all watches: clients must list again.
func (s *server) breakWatches() {
	s.set(func() { s.version++; s.compacted = s.version })
}

func (s *server) drop(resource object.Resource, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := pathOf(resource, name)
	if have := s.objects[path]; have != nil {
		s.delete(path, have)
	}
}

func (s *server) get(resource object.Resource, name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[pathOf(resource, name)]
}

// latestVersion returns the version of the last change of a kind.
func (s *server) latestVersion(resource object.Resource) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(s.history) {
		if within(resource.Path("", ""), c.path) {
			return uint64(c.version)
		}
	}
	return 0
}

// wrote returns the writes so far with a prefix of method and path.
func (s *server) wrote(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, write := range s.writes {
		if strings.HasPrefix(write, prefix) {
			found = append(found, write)
		}
	}
	return found
}

// expectWrites compares how many writes have a prefix.
func (s *server) expectWrites(prefix string, want int) {
	s.t.Helper()
	if all := s.wrote(prefix); len(all) != want {
		s.t.Errorf("%d writes, want %d: %q", len(all), want, all)
	}
}

// expectGone checks that a rate is deleted.
func (s *server) expectGone(name string) {
	s.t.Helper()
	if o := s.get(rates, name); o != nil {
		s.t.Errorf("left %s", text(o))
	}
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// field returns a value by path; nil for none.
func field(o map[string]any, path ...string) any {
	var value any = o
	for _, name := range path {
		members, _ := value.(map[string]any)
		value = members[name]
	}
	return value
}

func parse(t *testing.T, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}
