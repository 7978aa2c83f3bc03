package setpoint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

func handleMap(context.Context, *Call[corev1.ConfigMap]) error { return nil }

// problemsOf are those of an app, and of the options of its run.
func problemsOf(app *App, o Options) error {
	_, err := sdk.Of(app).OfflineEnvironment(o.convert())
	return err
}

// compileApp compiles an app without a cluster, as it would run with the options.
func compileApp(t *testing.T, app *App, o Options) []*compile.Compiled {
	t.Helper()
	env := must.Get(sdk.Of(app).OfflineEnvironment(o.convert())).In(t)
	return must.Get(sdk.Of(app).CompileAll(t.Context(), env)).In(t)
}

// reaction is the program of the first controller of an app.
func reaction(t *testing.T, app *App) loop.Program {
	t.Helper()
	return compileApp(t, app, Options{Namespace: "home", Namespaces: []string{"a", "b"}})[0].Handlers[0]
}

// The condition Handled and the records are kept where the stored CRD has a place for them,
// also if the program does not bring it along.
func TestStoredSchemaDecides(t *testing.T) {
	app := New("app")
	maps := For[corev1.ConfigMap](app)
	maps.Handle("handle", handleMap).OnCreate()
	for _, status := range []compile.Status{{}, {Conditions: true}, {Records: true}} {
		env := must.Get(sdk.Of(app).OfflineEnvironment(sdk.Options{})).In(t)
		env.StatusOf = func(context.Context, object.Resource) (compile.Status, error) { return status, nil }
		compiled := must.Get(sdk.Of(app).CompileAll(t.Context(), env)).In(t)
		if got := compiled[0].Handlers[0]; got.Conditions != status.Conditions || (got.Record.StatusKey != "") != status.Records {
			t.Errorf("%+v: conditions %v, record %q", status, got.Conditions, got.Record.StatusKey)
		}
	}
}

func TestHandlersBecomeAProgram(t *testing.T) {
	app := New("app")
	maps := For[corev1.ConfigMap](app, Labels("app=web"), FieldSelector("metadata.name=a"), Workers(3), Namespaces("b", "c"))
	maps.Owns(&corev1.Secret{})
	maps.Applies(&corev1.Pod{}, &corev1.Service{})
	maps.Deletes(&corev1.Service{})
	maps.Evicts()
	maps.Handle("handle", handleMap, Retries(0), RetryTimeout(time.Hour), Timeout(time.Minute), Backoff(time.Second, time.Hour),
		Field(`metadata.labels["a.b/c"]`), KeepPreviousState(), Idle(time.Minute), Jitter(time.Second), InitialDelay(time.Minute)).
		OnCreate().OnUpdate().OnDrift().Every(time.Hour)
	maps.Daemon("watch", handleMap)

	core := func(plural, kind string) object.Resource {
		return object.Resource{Version: "v1", Plural: plural, Kind: kind, Namespaced: true}
	}
	pods, services := core("pods", "Pod"), core("services", "Service")
	pods.Status, services.Status = true, true
	want := loop.Program{
		Rules: trigger.Rules{Resource: core("configmaps", "ConfigMap"), Finalizer: "setpoint.dev/app", Handlers: []trigger.Handler{{
			Name: "handle", On: []hook.Reason{ReasonCreate, ReasonUpdate, ReasonDrift}, Fields: [][]string{{"metadata", "labels", "a.b/c"}}, KeepPreviousState: true,
			Retries: -1, RetryTimeout: time.Hour, Timeout: time.Minute, Backoff: time.Second, MaxBackoff: time.Hour,
			Every: time.Hour, Idle: time.Minute, Jitter: time.Second, FromFirstSeen: true, InitialDelay: time.Minute,
		}, {Name: "watch"}}, Record: lasthandled.Location{Annotation: "setpoint.dev/handled-by-app"}},
		Name: "app/configmap", Manager: "setpoint-app-configmap", Labels: "app=web", Fields: "metadata.name=a",
		Namespaces: []string{"b"}, Workers: 3,
		Owns:   []object.Resource{core("secrets", "Secret")},
		Writes: []permit.Write{{Resource: pods, Apply: true, Evict: true}, {Resource: services, Apply: true, Delete: true}},
	}
	got := reaction(t, app)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(trigger.Handler{}, "Do", "Daemon", "When")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Handlers[0].Do == nil || got.Handlers[0].Daemon != nil || got.Handlers[1].Do != nil || got.Handlers[1].Daemon == nil {
		t.Error("the functions are not where they should be")
	}
}

func TestComposerBecomesAProgram(t *testing.T) {
	app := New("app")
	maps := Compose[corev1.ConfigMap](app, Name("web"), Labels("app=web"))
	maps.Owns(&corev1.Secret{})
	maps.Owns(&corev1.Pod{}, UpdateStrategy(RollingRecreate), MaxUnavailable(2), ReadyWhen("Ready", "True"))
	maps.Sync(func(context.Context, *ComposeContext[corev1.ConfigMap]) error { return nil })
	maps.GuardDeletions(0, 10)
	maps.Resync(time.Hour)
	maps.SyncOnStatusChange()
	compiled := compileApp(t, app, Options{Namespace: "home"})
	got := compiled[0].Programs[0]
	if got.Name != "app/web" || got.Finalizer != "setpoint.dev/app-web" || got.Manager != "setpoint-app-web" ||
		got.Resync != time.Hour || !got.SyncOnStatusChange || got.Finalize != nil || got.Selections[0].String() != "labels app=web" {
		t.Errorf("got %+v", got)
	}
	if got.DeletionLimit == nil || *got.DeletionLimit != (plan.DeletionLimit{MaxDeletions: 0, MaxPercent: 10}) {
		t.Errorf("the deletion guard is %+v", got.DeletionLimit)
	}
	for i, want := range []plan.Rule{
		{Method: plan.InPlace, Strategy: plan.ServerSide},
		{Method: plan.RollingRecreate, Strategy: plan.ServerSide, MaxUnavailable: 2, StatusChecks: []plan.StatusCheck{{Type: "Ready", Status: "True"}}},
	} {
		if diff := cmp.Diff(want, got.Children[i], cmpopts.IgnoreFields(plan.Rule{}, "Resource")); diff != "" {
			t.Errorf("rule %d (-want +got):\n%s", i, diff)
		}
	}
}

// A Compose that is limited to namespaces is a program for each, which share its
// workers; parents that live in none cannot be limited.
func TestComposeLimitedToNamespaces(t *testing.T) {
	app := New("app")
	maps := Compose[corev1.ConfigMap](app, FieldSelector("metadata.name=web"), Namespaces("b", "c", "b", "a"), Workers(3))
	maps.Owns(&corev1.Secret{})
	maps.Sync(func(context.Context, *ComposeContext[corev1.ConfigMap]) error { return nil })
	maps.Customize(func(context.Context, *corev1.ConfigMap) ([]RelatedRule, error) { return nil, nil }, &corev1.Service{}, &corev1.Namespace{})
	nodes := Compose[corev1.Node](app)
	nodes.Sync(func(context.Context, *ComposeContext[corev1.Node]) error { return nil })
	o := Options{Namespaces: []string{"a", "b"}, Namespace: "home"}
	compiled := compileApp(t, app, o)
	if len(compiled) != 2 || len(compiled[0].Programs) != 2 || len(compiled[1].Programs) != 1 {
		t.Fatalf("got %+v", compiled)
	}
	for i, namespace := range []string{"b", "a"} {
		p := compiled[0].Programs[i]
		if p.Namespace != namespace || p.Fields != "metadata.name=web" || p.Workers != 2 || !slices.Equal(p.Namespaces, []string{"b", "a"}) {
			t.Errorf("got %+v", p)
		}
	}
	if p := compiled[1].Programs[0]; p.Namespace != "" || p.Namespaces != nil {
		t.Errorf("got %+v", p)
	}
	text := must.Get(app.RBAC(t.Context(), "me", o)).In(t)
	everywhere, inA, _ := strings.Cut(string(text), "kind: Role\n")
	for _, one := range []string{"configmaps", "secrets", "services"} {
		if strings.Contains(everywhere, one) || !strings.Contains(inA, one) {
			t.Errorf("%s are not granted by namespace:\n%s", one, text)
		}
	}
	if !strings.Contains(everywhere, "[namespaces, nodes]") {
		t.Errorf("namespaces are not granted:\n%s", text)
	}
}

func TestRelations(t *testing.T) {
	app := New("app")
	maps := Compose[corev1.ConfigMap](app)
	maps.Owns(&corev1.Service{})
	maps.Sync(func(context.Context, *ComposeContext[corev1.ConfigMap]) error { return nil })
	maps.Customize(func(_ context.Context, o *corev1.ConfigMap) ([]RelatedRule, error) {
		all := []RelatedRule{{Object: &corev1.Secret{}, Namespace: "a", Names: []string{o.Name}}}
		if o.Name == "sibling" {
			all = []RelatedRule{{Object: &corev1.Service{}}}
		}
		if o.Name == "stranger" {
			all = append(all, RelatedRule{Object: &corev1.Pod{}})
		}
		if o.Name == "spaced" {
			all = append(all, RelatedRule{Object: &corev1.Secret{}, NamespaceLabels: &metav1.LabelSelector{}})
		}
		return all, nil
	}, &corev1.Secret{})
	compiled := compileApp(t, app, Options{Namespace: "home"})
	req := compiled[0].Programs[0].Customize
	got := must.Get(req.Customize(t.Context(), &hook.CustomizeRequest{Parent: []byte(`{"metadata":{"name":"token"}}`)})).In(t)
	want := []hook.RelatedRule{{APIVersion: "v1", Resource: "secrets", Namespace: "a", Names: []string{"token"}}}
	if diff := cmp.Diff(want, got.Related); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		"sibling":  "<nil>", // A kind of the children.
		"stranger": "declare Pod of v1 in Customize",
		"spaced":   "NamespaceLabels: declare Namespace of v1 in Customize",
	} {
		_, err := req.Customize(t.Context(), &hook.CustomizeRequest{Parent: fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name)})
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	rules, err := app.RBAC(t.Context(), "me", Options{})
	if err != nil || !strings.Contains(string(rules), "secrets]") {
		t.Errorf("got %v\n%s", err, rules)
	}
}

func TestFilters(t *testing.T) {
	parse := func(text string) *object.Object {
		if text == "" {
			return nil
		}
		return must.Get(object.Parse([]byte(text))).In(t)
	}
	const now = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"app":"web"},"annotations":{"mode":"on, now"}},` +
		`"data":{"size":"3","none":null},"count":{"of":3,"list":[1,2]}}`
	const before = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"size":"2"},"count":{"of":3}}`
	bigger := When(func(old, now *corev1.ConfigMap) bool { return old == nil || now.Data["size"] > old.Data["size"] })
	for name, c := range map[string]struct {
		option   HandlerOption
		old, now string
		want     bool
	}{
		"labels":             {Labels("app=web"), "", now, true},
		"other labels":       {Labels("app!=web"), "", now, false},
		"an annotation":      {Annotations("mode"), "", now, true},
		"no annotation":      {Annotations("!mode"), "", now, false},
		"no annotations":     {Annotations("mode"), "", before, false},
		"a value":            {FieldIs("data.size", "3"), "", now, true},
		"another value":      {FieldIs("data.size", 3), "", now, false},
		"a number":           {FieldIs("count.of", 3), "", now, true},
		"a list":             {FieldIs("count.list", []int{1, 2}), "", now, true},
		"no value":           {FieldIs("data.none", nil), "", now, true},
		"present":            {FieldPresent("data.size"), "", now, true},
		"null is not":        {FieldPresent("data.none"), "", now, false},
		"absent":             {FieldAbsent("data.none"), "", now, true},
		"not absent":         {FieldAbsent("data"), "", now, false},
		"changed":            {FieldChanged("data.size"), before, now, true},
		"not changed":        {FieldChanged("count.of"), before, now, false},
		"changed from what":  {FieldChanged("count.of"), "", now, true},
		"a function":         {bigger, before, now, true},
		"a function says no": {bigger, now, before, false},
		"nothing before":     {bigger, "", before, true},
	} {
		t.Run(name, func(t *testing.T) {
			app := New("app")
			maps := For[corev1.ConfigMap](app)
			maps.Handle("handle", handleMap, c.option, FieldPresent("metadata.name")).OnCreate()
			if got := reaction(t, app).Handlers[0].When(parse(c.old), parse(c.now)); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// Fault G11: deletions are guarded unless the program says otherwise.
func TestDeletionsAreGuarded(t *testing.T) {
	app := New("app")
	guarded := Compose[corev1.ConfigMap](app, Name("guarded"), Labels("a=b"))
	open := Compose[corev1.ConfigMap](app, Name("open"), Labels("a=c"))
	open.NoDeletionGuard()
	for _, c := range []*Composer[corev1.ConfigMap]{guarded, open} {
		c.Owns(&corev1.Secret{})
		c.Sync(func(context.Context, *ComposeContext[corev1.ConfigMap]) error { return nil })
	}
	compiled := compileApp(t, app, Options{})
	if guard := compiled[0].Programs[0].DeletionLimit; guard == nil || *guard != *plan.DefaultDeletionLimit() {
		t.Errorf("the deletion guard is %+v by default", guard)
	}
	if guard := compiled[1].Programs[0].DeletionLimit; guard != nil {
		t.Errorf("the deletion guard is %+v, want none", guard)
	}
	guarded.GuardDeletions(1, 101)
	if err := problemsOf(app, Options{}); err == nil {
		t.Error("more than all children are taken for a share")
	}
}
