package composite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// cluster is a fake API server for one reconcile at a time: it has resource versions, generations
// and lists, and counts writes. Its watches send nothing. The cache sees the controller's writes at
// once, and edit is the only other writer.
type cluster struct {
	t       *testing.T
	url     string
	mu      sync.Mutex
	version int
	objects map[string]map[string]any // by path
	// writes lists the successful writes, such as "PUT shops/a/status".
	writes []string
	// prune may remove fields that the status schema does not have.
	prune func(status map[string]any)
	// slow keeps deleted objects with a deletionTimestamp.
	slow bool
	// refuse may return a status code for a write.
	refuse func(method, path string) int
}

func newCluster(t *testing.T, objects ...string) *cluster {
	s := &cluster{t: t, version: 10, objects: map[string]map[string]any{}}
	for _, text := range objects {
		var o map[string]any
		must.Succeed(t, json.Unmarshal([]byte(text), &o))
		metadata := o["metadata"].(map[string]any)
		metadata["namespace"], metadata["resourceVersion"] = "town", "10"
		metadata["uid"] = cmp.Or(fmt.Sprint(metadata["uid"]), "u-"+fmt.Sprint(metadata["name"]))
		s.objects[plurals[fmt.Sprint(o["kind"])]+"/"+fmt.Sprint(metadata["name"])] = o
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

var plurals = map[string]string{"Shop": "shops", "ConfigMap": "configmaps", "ControllerRevision": "controllerrevisions"}

func (s *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	switch {
	case query.Get("sendInitialEvents") == "true":
		writeJSON(w, http.StatusUnprocessableEntity, failureStatus(http.StatusUnprocessableEntity, "Invalid"))
	case query.Get("watch") == "true":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		code, body := s.respond(r)
		writeJSON(w, code, body)
	}
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func failureStatus(code int, reason string) map[string]any {
	return map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": reason}
}

func (s *cluster) respond(r *http.Request) (int, any) {
	_, at, inNamespace := strings.Cut(r.URL.Path, "/namespaces/town/")
	if !inNamespace {
		return http.StatusOK, s.list(path.Base(r.URL.Path))
	}
	if r.Method != http.MethodGet && s.refuse != nil {
		if code := s.refuse(r.Method, at); code != 0 {
			return code, failureStatus(code, map[int]string{http.StatusConflict: "Conflict", http.StatusForbidden: "not \"open sesame\""}[code])
		}
	}
	var sent map[string]any
	_ = json.NewDecoder(r.Body).Decode(&sent)
	if r.Method == http.MethodPost {
		name := sent["metadata"].(map[string]any)["name"].(string)
		sent["metadata"].(map[string]any)["uid"] = "u-" + name
		at += "/" + name
		s.writes = append(s.writes, "POST "+at)
		return http.StatusCreated, s.put(at, sent)
	}
	at, ofStatus := strings.CutSuffix(at, "/status")
	have := s.objects[at]
	if have == nil {
		return http.StatusNotFound, failureStatus(http.StatusNotFound, "NotFound")
	}
	switch r.Method {
	case http.MethodPut:
		s.writes = append(s.writes, "PUT "+at+map[bool]string{true: "/status"}[ofStatus])
		return http.StatusOK, s.put(at, s.merged(have, sent, ofStatus))
	case http.MethodDelete:
		s.writes = append(s.writes, "DELETE "+at)
		if !s.slow {
			delete(s.objects, at)
			return http.StatusOK, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}
		}
		have["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		return http.StatusOK, s.put(at, have)
	}
	return http.StatusOK, have
}

func (s *cluster) list(plural string) map[string]any {
	items := []any{}
	for _, at := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(at, plural+"/") {
			items = append(items, s.objects[at])
		}
	}
	return map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": fmt.Sprint(s.version)}, "items": items}
}

// merged returns what an update stores: all but the status, or the status alone.
func (s *cluster) merged(have, sent map[string]any, ofStatus bool) map[string]any {
	stored := maps.Clone(have)
	if !ofStatus {
		stored = sent
		sent["metadata"].(map[string]any)["managedFields"] = have["metadata"].(map[string]any)["managedFields"]
		delete(stored, "status")
		if have["status"] != nil {
			stored["status"] = have["status"]
		}
		return stored
	}
	delete(stored, "status")
	if status, given := sent["status"].(map[string]any); given {
		if s.prune != nil {
			s.prune(status)
		}
		stored["status"] = status
	}
	return stored
}

// put stores an object, or removes one that is deleted and has no finalizers.
func (s *cluster) put(at string, o map[string]any) map[string]any {
	s.version++
	metadata := maps.Clone(o["metadata"].(map[string]any))
	metadata["resourceVersion"], metadata["namespace"] = fmt.Sprint(s.version), "town"
	o["metadata"] = metadata
	s.objects[at] = o
	if finalizers, _ := metadata["finalizers"].([]any); !s.slow && metadata["deletionTimestamp"] != nil && len(finalizers) == 0 {
		delete(s.objects, at)
	}
	return o
}

// stored returns the object at a path such as "shops/a"; "" if there is none.
func (s *cluster) stored(at, field string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[at] == nil {
		return ""
	}
	return string(must.Get(json.Marshal(s.objects[at][field])).In(s.t))
}

// wrote returns the writes since the last call.
func (s *cluster) wrote() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.writes, ", ")
	s.writes = nil
	return all
}

// expectWrites compares the writes since the last call.
func (s *cluster) expectWrites(t *testing.T, want string) {
	t.Helper()
	if got := s.wrote(); got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

// testController is a controller that reconciles only when the test calls run.
type testController struct {
	*Controller
	*runRecorder
	cluster *cluster
	events  []string
	// clockOffset is added to the controller's clock.
	clockOffset time.Duration
}

func (s *testController) OwnEvent(o *object.Object, event hook.Event) { s.Event(o, event) }

func (s *testController) Event(_ *object.Object, event hook.Event) {
	s.events = append(s.events, event.Reason+": "+event.Message)
}

// shopsOf starts a controller of the shops in a cluster.
func shopsOf(t *testing.T, s *cluster, program Program, changes ...func(*controller.Dependencies)) *testController {
	t.Helper()
	client := must.Get(rest.UnversionedRESTClientFor(&rest.Config{
		Host: s.url, QPS: -1, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
	})).In(t)
	log := slog.New(slog.DiscardHandler)
	cached := cache.New(client, cache.Options{Log: log})
	t.Cleanup(cached.Close)
	program.Name, program.Finalizer, program.LastApplied = "test", "example.org/test", "example.org/last"
	if program.Parent.Kind == "" {
		program.Parent = customStalls
	}
	if _, given := program.Children.For(signs.GroupKind()); !given {
		program.Children = append(program.Children, plan.Rule{Resource: signs, Method: plan.InPlace})
	}
	program.GenerateSelector = program.Mark == plan.Mark{}
	made := &testController{cluster: s, runRecorder: &runRecorder{}}
	unserved := func(_ context.Context, apiVersion, plural string) (object.Resource, error) {
		return object.Resource{}, fmt.Errorf("%s of %s: %w", plural, apiVersion, served.ErrNotServed)
	}
	needs := controller.Dependencies{
		Store: cached, Resolve: unserved, Writer: apply.New(client, apply.Options{}), Observer: made, Log: log,
		Now: func() time.Time { return time.Now().Add(made.clockOffset) },
	}
	for _, change := range changes {
		change(&needs)
	}
	made.Controller = New(program, Dependencies{Dependencies: needs})
	t.Cleanup(made.Close)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if !made.WaitForSync(ctx) {
		t.Fatal("the watches do not sync")
	}
	return made
}

var customStalls = object.Resource{
	Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop", Namespaced: true, Status: true, Custom: true,
}

// run reconciles the shop a for a cause and returns the record.
func (s *testController) run(cause queue.CauseKind) record.Run {
	s.RunItem(s.cluster.t.Context(), queue.Item{
		Key: queue.Key{Namespace: "town", Name: "a"}, Causes: queue.NewCauses(queue.Cause{Kind: cause}),
	})
	if len(s.runs) == 0 {
		return record.Run{}
	}
	return s.runs[len(s.runs)-1]
}

func (s *testController) runTimes(n int, cause queue.CauseKind) {
	for range n {
		s.run(cause)
	}
}

// observe puts an object into the cache as if another client had written it.
func (s *testController) observe(text []byte) {
	seen, err := object.Parse(text)
	if err != nil {
		s.cluster.t.Error(err)
		return
	}
	s.OwnedView(signs, seen).ObserveWrite(seen)
}
