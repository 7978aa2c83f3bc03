package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// fakeAPIServer is an API server that serves shops and their CRD.
type fakeAPIServer struct {
	mu sync.Mutex
	// crd is the stored CRD; "" for none.
	crd string
	// denied is a verb that access reviews deny.
	denied string
	// watchers receive the events of the CRD.
	watchers []chan string
	applied  int
	// events are the recorded events.
	events []string
}

const (
	shopsCRD      = "shops.example.org"
	shopsCRDPath  = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + shopsCRD
	shopsResource = `{"resources":[{"name":"shops","kind":"Shop","namespaced":true},{"name":"shops/status","kind":"Shop","namespaced":true}]}`
)

func (s *fakeAPIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/apis/example.org/v1":
		s.writeIfCRD(w, shopsResource)
	case shopsCRDPath:
		if r.Method == http.MethodPatch {
			s.apply(r)
		}
		s.writeIfCRD(w, s.stored())
	case "/apis/authentication.k8s.io/v1/selfsubjectreviews":
		_, _ = io.WriteString(w, `{"status":{"userInfo":{"username":"system:serviceaccount:shops:keeper"}}}`)
	case "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		s.review(w, r)
	default:
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events") {
			s.recordEvent(r)
			return
		}
		s.list(w, r)
	}
}

// recordEvent records an event.
func (s *fakeAPIServer) recordEvent(r *http.Request) {
	var e corev1.Event
	_ = json.NewDecoder(r.Body).Decode(&e) // Invalid events are ignored.
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e.InvolvedObject.Name+" "+e.Reason+" "+e.Message)
}

// awaitWatch waits until the CRD is watched: changes before that are not sent.
func (s *fakeAPIServer) awaitWatch(t *testing.T) {
	t.Helper()
	must.Eventually(t, "the watch of the CRD", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.watchers) > 0 })
}

// deleteCRD deletes the CRD.
func (s *fakeAPIServer) deleteCRD() {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := strings.Replace(s.crd, fmt.Sprintf(`"resourceVersion":"%d"`, 10+s.applied), fmt.Sprintf(`"resourceVersion":"%d"`, 100+s.applied), 1)
	s.crd = ""
	for _, watcher := range s.watchers {
		watcher <- `{"type":"DELETED","object":` + gone + "}\n"
	}
}

func (s *fakeAPIServer) counts() (applied int, events []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied, slices.Clone(s.events)
}

func (s *fakeAPIServer) stored() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crd
}

// writeIfCRD writes the text if there is a CRD.
func (s *fakeAPIServer) writeIfCRD(w http.ResponseWriter, text string) {
	if s.stored() == "" {
		w.WriteHeader(http.StatusNotFound)
		text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	}
	_, _ = io.WriteString(w, text)
}

// apply stores a CRD, which is established at once, and notifies the watchers.
func (s *fakeAPIServer) apply(r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var o map[string]any
	if yaml.Unmarshal(body, &o) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied++
	o["metadata"] = map[string]any{"name": shopsCRD, "uid": "1", "resourceVersion": fmt.Sprint(10 + s.applied)}
	o["status"] = map[string]any{"storedVersions": []string{"v1"}, "conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	text, _ := json.Marshal(o)
	s.crd = string(text)
	for _, watcher := range s.watchers {
		watcher <- `{"type":"ADDED","object":` + s.crd + "}\n"
	}
}

func (s *fakeAPIServer) review(w http.ResponseWriter, r *http.Request) {
	var review authorization.SelfSubjectAccessReview
	_ = json.NewDecoder(r.Body).Decode(&review) // What cannot be read is allowed.
	s.mu.Lock()
	review.Status.Allowed = review.Spec.ResourceAttributes.Verb != s.denied
	s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(review)
}

// list writes empty lists, except of the CRD, and watches the CRD.
func (s *fakeAPIServer) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch {
	case query.Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	case query.Get("watch") == "":
		items := ""
		if query.Get("fieldSelector") == "metadata.name="+shopsCRD {
			items = s.stored()
		}
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[`+items+`]}`)
		return
	}
	events := make(chan string, 9)
	if query.Get("fieldSelector") == "metadata.name="+shopsCRD {
		s.mu.Lock()
		s.watchers = append(s.watchers, events)
		s.mu.Unlock()
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case event := <-events:
			_, _ = io.WriteString(w, event)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (s *fakeAPIServer) deny(verb string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = verb
}

// shopController returns a controller of shops.
func shopController(name string) controllers.GoController { return shopControllerWithChildren(name) }

// shopControllerWithChildren returns a controller of shops with these child kinds.
func shopControllerWithChildren(name string, children ...object.Resource) controllers.GoController {
	sync := hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) { return &hook.Response{}, nil })
	return controllers.GoController{Name: name, Compile: func(ctx context.Context, env compile.Environment) (*compile.Compiled, error) {
		shops, err := env.ResolveKind(ctx, "example.org/v1", "Shop")
		if err != nil {
			return nil, fmt.Errorf("compile shops: %w", err)
		}
		var rules plan.Rules
		for _, child := range children {
			rules = append(rules, plan.Rule{Resource: child})
		}
		return &compile.Compiled{Programs: []composite.Program{{Name: name, Parent: shops, Children: rules, Sync: sync, Workers: 1}}}, nil
	}}
}

// shopHandlerController is shopController with a handler beside its hook.
func shopHandlerController(name string) controllers.GoController {
	own := shopController(name)
	return controllers.GoController{Name: name, Compile: func(ctx context.Context, env compile.Environment) (*compile.Compiled, error) {
		compiled, err := own.Compile(ctx, env)
		if err != nil {
			return nil, err
		}
		do := hook.HandlerFunc(func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			return &hook.HandlerResponse{}, nil
		})
		compiled.Handlers = []handler.Program{{
			Name: name, Workers: 1, Rules: trigger.Rules{
				Resource: compiled.Programs[0].Parent, Record: lasthandled.Location{Annotation: "example.org/handled"},
				Handlers: []trigger.Handler{{Name: "greet", On: []hook.Reason{hook.ReasonCreate}, Do: do}},
			},
		}}
		return compiled, nil
	}}
}

const shopsManifest = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Shop, plural: shops}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {a: {type: string}}}}}
`

// newManager returns a Manager of an API server.
func newManager(t *testing.T, s http.Handler, o Options) *Manager {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	o.Config, o.Log = &rest.Config{Host: server.URL}, cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return must.Get(New(o)).In(t)
}

// startManager runs a Manager until the test ends.
func startManager(t *testing.T, s http.Handler, o Options) *Manager {
	t.Helper()
	m := newManager(t, s, o)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must.Succeed(t, <-ended)
	})
	return m
}

// readyz returns the response of /readyz.
func readyz(m *Manager) string {
	w := httptest.NewRecorder()
	options := m.endpoints()
	options.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
	return strings.TrimSpace(w.Body.String())
}

// A kind that is not served yet does not block the start, and is found once it is served.
func TestGoControllersWaitForTheirKinds(t *testing.T) {
	s := &fakeAPIServer{}
	m := startManager(t, s, Options{GoControllers: []controllers.GoController{shopController("keeper")}})
	<-m.Ready()
	must.Eventually(t, "ready", func() bool { return readyz(m) == "ok" })
	if running := len(m.controllers.Healths()); running != 0 {
		t.Errorf("%d run", running)
	}
	s.awaitWatch(t)
	s.apply(httptest.NewRequest(http.MethodPatch, shopsCRDPath, strings.NewReader(shopsManifest)))
	must.Eventually(t, "the controller", func() bool { return len(m.controllers.Healths()) == 1 })
	must.Eventually(t, "ready again", func() bool { return readyz(m) == "ok" })
	must.Eventually(t, "the metric", func() bool { return m.controllers.Gauges()["keeper"].Ready })
}

// Missing access is reported, and the controller starts once it is granted.
func TestGoControllersReportMissingAccess(t *testing.T) {
	s := &fakeAPIServer{denied: "list"}
	m := startManager(t, s, Options{GoControllers: []controllers.GoController{shopController("keeper")}, CRDs: [][]byte{[]byte(shopsManifest)}})
	// Fault D5: the roles can be applied unchanged.
	const want = `keeper: Setpoint as system:serviceaccount:shops:keeper may not list shops.example.org/v1; the controller starts when this is granted
# To grant it: kubectl apply -f -
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: setpoint-grant-keeper
rules:
  - {apiGroups: [example.org], resources: [shops], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: setpoint-grant-keeper
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: setpoint-grant-keeper
subjects:
  - {kind: ServiceAccount, name: keeper, namespace: shops}`
	must.Eventually(t, "the missing access", func() bool { return readyz(m) == want })
	if got := m.controllers.Gauges(); got["keeper"].Ready {
		t.Error(got)
	}
	s.deny("")
	must.Eventually(t, "ready", func() bool { return readyz(m) == "ok" })
}

// Of two conflicting controllers the one that is listed first runs.
func TestConflictingGoControllers(t *testing.T) {
	configMaps := object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	m := startManager(t, &fakeAPIServer{}, Options{GoControllers: []controllers.GoController{shopControllerWithChildren("one", configMaps), shopControllerWithChildren("another", configMaps)}, CRDs: [][]byte{[]byte(shopsManifest)}})
	const want = "another: one is already the controller of shops.example.org/v1; "
	must.Eventually(t, "the refusal", func() bool { return strings.HasPrefix(readyz(m), want) })
	if running := slices.Collect(maps.Keys(m.controllers.Healths())); !slices.Equal(running, []string{"one"}) {
		t.Errorf("%q run", running)
	}
}

// Fault M15: two controllers of one kind run if one has no children.
func TestGoControllersOfOneKind(t *testing.T) {
	m := startManager(t, &fakeAPIServer{}, Options{GoControllers: []controllers.GoController{shopController("one"), shopController("another")}, CRDs: [][]byte{[]byte(shopsManifest)}})
	must.Eventually(t, "both", func() bool { return readyz(m) == "ok" && len(m.controllers.Healths()) == 2 })
	for _, c := range must.Get(m.controllers.Controllers(t.Context())).In(t) {
		if yields := slices.ContainsFunc(c.Notes, func(note string) bool { return strings.HasPrefix(note, "one takes precedence") }); yields != (c.Name == "another") {
			t.Errorf("%s yields the status: %v", c.Name, yields)
		}
	}
}

func TestGoControllersAreValidated(t *testing.T) {
	for want, own := range map[string][]controllers.GoController{
		"has no name or":         {{Compile: shopController("x").Compile}},
		"no Compile function":    {{Name: "x"}},
		`have the name "keeper"`: {shopController("keeper"), shopController("keeper")},
		"the CRDs of the p":      {shopController("keeper")},
	} {
		_, err := New(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, GoControllers: own, CRDs: [][]byte{[]byte("kind: Pod")}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A breaking upgrade is refused before anything is written, unless it is allowed.
func TestCRDUpgrades(t *testing.T) {
	upgrade := strings.Replace(shopsManifest, "a: {type: string}", "b: {type: string}", 1)
	s := &fakeAPIServer{}
	install := func(text string, breaking bool) error {
		m := newManager(t, s, Options{SkipCRDs: true, CRDs: [][]byte{[]byte(text)}, AllowBreakingCRDs: breaking})
		defer m.Close()
		return m.CRDs.Install(t.Context())
	}
	for range 2 {
		must.Succeed(t, install(shopsManifest, false))
	}
	const want = "install CRD shops.example.org: the upgrade is refused because it could break stored objects or clients: " +
		"v1: a: is removed; add a version instead, or allow breaking changes"
	if err := install(upgrade, false); err == nil || err.Error() != want || s.applied != 2 {
		t.Errorf("applied %d times: %v", s.applied, err)
	}
	if err := install(upgrade, true); err != nil || s.applied != 3 {
		t.Errorf("applied %d times: %v", s.applied, err)
	}
}

// A standby replica of a new release must be ready while the leader of an older release does
// not install its CRDs; otherwise a rolling update would block.
func TestStandbyIsReadyWithoutItsCRDs(t *testing.T) {
	s := &fakeAPIServer{}
	m := newManager(t, s, Options{
		GoControllers: []controllers.GoController{shopController("keeper")}, CRDs: [][]byte{[]byte(shopsManifest)},
		LeaderElection: leader.Election{Enabled: true},
	})
	defer m.Close()
	if got := readyz(m); got != "starting" {
		t.Errorf("%q at the start", got)
	}
	waited := make(chan error, 1)
	go func() { waited <- m.awaitCRDsAsStandby(t.Context()) }()
	must.Eventually(t, "ready to stand by", func() bool { return readyz(m) == "ok" })
	s.apply(httptest.NewRequest(http.MethodPatch, shopsCRDPath, strings.NewReader(shopsManifest)))
	must.Succeed(t, <-waited)
	if got := readyz(m); got != "starting" {
		t.Errorf("%q while caches sync", got)
	}
}

// A task that ignores its context is logged and does not block the exit.
func TestShutdownTimeout(t *testing.T) {
	begun, never := make(chan bool), make(chan bool)
	t.Cleanup(func() { close(never) })
	stuck := controllers.GoController{Name: "stuck", Compile: func(context.Context, compile.Environment) (*compile.Compiled, error) {
		close(begun)
		<-never
		return nil, errors.New("too late")
	}}
	log := must.Get(os.Create(filepath.Join(t.TempDir(), "log"))).In(t) // What did not stop may go on logging.
	t.Cleanup(func() { log.Close() })
	m := newManager(t, &fakeAPIServer{}, Options{
		Log: slog.New(slog.NewTextHandler(log, nil)), GoControllers: []controllers.GoController{stuck},
		ShutdownTimeout: 50 * time.Millisecond, UnfinishedTasks: func() []string { return []string{"daemon watch of Shop town/books"} },
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	<-begun
	stop()
	var err error
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		t.Fatal("still runs")
	}
	if err == nil || !strings.Contains(err.Error(), "did not stop within the shutdown timeout of 50ms") {
		t.Errorf("got %v", err)
	}
	logged := string(must.Get(os.ReadFile(log.Name())).In(t))
	if want := `msg="did not stop within the shutdown timeout" what="daemon watch of Shop town/books"`; !strings.Contains(logged, want) {
		t.Errorf("logged %s, want %s", logged, want)
	}
}
