package setpointtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/setpointtest"
)

// Rate is a kind of object that its CRD says more about than this type does.
type Rate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   RateSpec   `json:"spec"`
	Status RateStatus `json:"status,omitzero"`
}

type RateSpec struct {
	Currency string  `json:"currency"`
	Note     string  `json:"note,omitempty"`
	Source   *Source `json:"source,omitempty"`
}

type Source struct {
	Host string `json:"host,omitempty"`
	Port int64  `json:"port,omitempty"`
}

type RateStatus struct {
	Rate   string   `json:"rate,omitempty"`
	Places []string `json:"places,omitempty"`
}

type (
	call        = setpoint.Call[Rate]
	rateHandler = func(*call) error
)

// handle calls a handler for a rate in the namespace shop.
func handle(t *testing.T, do rateHandler, object *Rate, options ...setpointtest.Option) setpointtest.Result[Rate] {
	t.Helper()
	app := setpoint.New("rates")
	rates := setpoint.For[Rate](app, setpoint.Kind("example.com/v1", "Rate"))
	rates.Owns(&corev1.ConfigMap{})
	rates.Applies(&corev1.Secret{})
	rates.Deletes(&corev1.Pod{})
	rates.Evicts()
	rates.Reads(&corev1.Pod{})
	rates.Handle("publish", func(_ context.Context, c *call) error { return do(c) }).OnCreate()
	return setpointtest.Handle(t, app, "publish", object, options...)
}

func rate() *Rate {
	r := &Rate{Spec: RateSpec{Currency: "USD", Note: "for the shop", Source: &Source{Host: "rates", Port: 1 << 60}}}
	r.Name, r.Namespace, r.UID = "dollar", "shop", "1"
	r.Labels = map[string]string{"app": "shop", "tier": "front"}
	r.Status = RateStatus{Rate: "1.1", Places: []string{"a", "b"}}
	return r
}

func TestChangesOfTheObjectArePatches(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*Rate)
		patch, status string
	}{
		"nothing":           {func(*Rate) {}, "null", "null"},
		"a field":           {func(r *Rate) { r.Spec.Currency = "CHF" }, `{"spec":{"currency":"CHF"}}`, "null"},
		"a field taken out": {func(r *Rate) { r.Spec.Note = "" }, `{"spec":{"note":null}}`, "null"},
		"an object of some": {func(r *Rate) { r.Spec.Source = nil }, `{"spec":{"source":null}}`, "null"},
		"a number":          {func(r *Rate) { r.Spec.Source.Port++ }, `{"spec":{"source":{"port":1152921504606846977}}}`, "null"},
		"a label":           {func(r *Rate) { r.Labels["tier"] = "back" }, `{"metadata":{"labels":{"tier":"back"}}}`, "null"},
		"no labels":         {func(r *Rate) { r.Labels = nil }, `{"metadata":{"labels":{"app":null,"tier":null}}}`, "null"},
		"an annotation":     {func(r *Rate) { r.Annotations = map[string]string{"a": "b"} }, `{"metadata":{"annotations":{"a":"b"}}}`, "null"},
		"the status":        {func(r *Rate) { r.Status.Rate = "1.2" }, "null", `{"rate":"1.2"}`},
		"a list":            {func(r *Rate) { r.Status.Places = append(r.Status.Places, "c") }, "null", `{"places":["a","b","c"]}`},
		"no status":         {func(r *Rate) { r.Status = RateStatus{} }, "null", `{"places":null,"rate":null}`},
		"both":              {func(r *Rate) { r.Spec.Note, r.Status.Rate = "x", "" }, `{"spec":{"note":"x"}}`, `{"rate":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			var want *Rate
			r := handle(t, func(called *call) error {
				c.change(called.Object)
				want = called.Object
				return nil
			}, rate())
			must.Succeed(t, r.Err)
			equalJSON(t, "patch", r.Patch, c.patch)
			equalJSON(t, "status", r.Status, c.status)
			if diff := cmp.Diff(want, r.Object, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the object is not as the handler left it (-want +got):\n%s", diff)
			}
		})
	}
}

// equalJSON compares what a test wrote with what a handler wants written.
func equalJSON(t *testing.T, what string, got map[string]any, want string) {
	t.Helper()
	var wanted map[string]any
	must.Succeed(t, utiljson.Unmarshal([]byte(want), &wanted))
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestUnknownFieldsAreKept(t *testing.T) {
	app := setpoint.New("rates")
	rates := setpoint.For[Rate](app, setpoint.Kind("example.com/v1", "Rate"))
	rates.Handle("move", func(_ context.Context, c *call) error {
		c.Object.Spec.Source.Host = "elsewhere"
		return nil
	}).OnCreate()
	whole := map[string]any{
		"metadata":   map[string]any{"name": "dollar", "managedFields": []any{}},
		"spec":       map[string]any{"currency": "USD", "unknown": "x", "source": map[string]any{"host": "here", "secret": "y"}},
		"status":     map[string]any{"observed": 1},
		"apiVersion": "example.com/v1", "kind": "Rate",
	}
	r := setpointtest.Handle(t, app, "move", &whole)
	must.Succeed(t, r.Err)
	equalJSON(t, "patch", r.Patch, `{"spec":{"source":{"host":"elsewhere"}}}`)
	equalJSON(t, "status", r.Status, "null")
}

func TestInvalidHandlerResults(t *testing.T) {
	for name, c := range map[string]struct {
		do   rateHandler
		want string
	}{
		"another name":         {func(c *call) error { c.Object.Name, c.Object.UID = "x", "y"; return nil }, "the handler changed metadata.name, metadata.uid"},
		"another kind":         {func(c *call) error { c.Object.Kind = "x"; return nil }, "the handler changed kind"},
		"a finalizer":          {func(c *call) error { c.Object.Finalizers = []string{"a/b"}; return nil }, "the handler changed metadata.finalizers"},
		"no object":            {func(c *call) error { c.Object = nil; return nil }, "must be an object"},
		"an undeclared apply":  {func(c *call) error { c.Apply(&corev1.Service{}); return nil }, "Apply: declare Service of v1 with Owns or Applies"},
		"an undeclared delete": {func(c *call) error { c.DeleteAll(&corev1.Secret{}, "a=b"); return nil }, "declare Secret of v1 with Owns or Deletes"},
		"a type of no kind":    {func(c *call) error { c.Apply(&Source{}); return nil }, "unknown kind of setpointtest_test.Source"},
		"delete nothing":       {func(c *call) error { c.Delete(&corev1.Pod{}); return nil }, "Delete: the object has no name"},
		"delete everything":    {func(c *call) error { c.DeleteAll(&corev1.Pod{}, ""); return nil }, "would select all objects"},
		"a wrong selector":     {func(c *call) error { c.EvictAll("a b"); return nil }, `EvictAll("a b")`},
		"owned what":           {func(c *call) error { c.Owned(&[]corev1.Secret{}); return nil }, "Owned: declare Secret of v1"},
		"owned into what":      {func(c *call) error { c.Owned([]corev1.Secret{}); return nil }, "requires a pointer to a slice"},
		"list what":            {func(c *call) error { return c.List(t.Context(), &[]corev1.Secret{}, "") }, "List: declare Secret of v1 with Reads"},
		"list into what":       {func(c *call) error { return c.List(t.Context(), []corev1.Pod{}, "") }, "List: requires a pointer to a slice"},
		"list which":           {func(c *call) error { return c.List(t.Context(), &[]corev1.Pod{}, "a b") }, "List: "},
		"a daemon's":           {func(c *call) error { return setpoint.Permanent(c.Write()) }, "Call.Write requires a daemon"},
	} {
		t.Run(name, func(t *testing.T) {
			r := handle(t, c.do, rate())
			var terminal *hook.TerminalError
			if !errors.As(r.Err, &terminal) || !strings.Contains(r.Err.Error(), c.want) {
				t.Errorf("got %v, want a permanent error about %q", r.Err, c.want)
			}
		})
	}
}

func TestErrorDropsAllChanges(t *testing.T) {
	r := handle(t, func(c *call) error {
		c.Object.Spec.Note = "x"
		c.Apply(&corev1.ConfigMap{})
		return setpoint.RetryAfter(time.Second, errors.New("not now"))
	}, rate())
	var again *hook.RetryAfterError
	if !errors.As(r.Err, &again) || again.After != time.Second || r.Applied != nil || r.Patch != nil {
		t.Errorf("got %+v", r)
	}
}

// Fault H9: a handler that asks to be called again at once, or at a time that has passed,
// is.
func TestRequeueAtOnce(t *testing.T) {
	for _, after := range []time.Duration{0, -time.Hour} {
		r := handle(t, func(c *call) error { c.Requeue(after); return nil }, rate())
		if r.Err != nil || r.Requeue != hook.Immediately {
			t.Errorf("Requeue(%s): %v, %s", after, r.Err, r.Requeue)
		}
	}
	if r := handle(t, func(*call) error { return nil }, rate()); r.Requeue != 0 {
		t.Errorf("done, and called again after %s", r.Requeue)
	}
}

func TestAppliedObjectsAreAdopted(t *testing.T) {
	r := handle(t, func(c *call) error {
		c.Apply(&corev1.ConfigMap{Data: map[string]string{"rate": "1.1"}}, setpoint.CopyLabels())
		own := &corev1.ConfigMap{}
		own.Name, own.Namespace, own.Labels = "own", "else", map[string]string{"app": "own"}
		c.Apply(own, setpoint.CopyLabels())
		for range 2 {
			secret := &corev1.Secret{}
			secret.GenerateName = "token-"
			c.Apply(secret, setpoint.Unowned())
		}
		return nil
	}, rate())
	must.Succeed(t, r.Err)
	equalJSON(t, "the first", r.Applied[0].Object, `{"apiVersion":"v1","kind":"ConfigMap","data":{"rate":"1.1"},
		"metadata":{"name":"dollar","labels":{"app":"shop","tier":"front"}}}`)
	equalJSON(t, "the second", r.Applied[1].Object, `{"apiVersion":"v1","kind":"ConfigMap",
		"metadata":{"name":"own","namespace":"else","labels":{"app":"own","tier":"front"}}}`)
	one, two := r.Applied[2], r.Applied[3]
	if one.GetName() == two.GetName() || !strings.HasPrefix(one.GetName(), "token-") || len(one.GetName()) != len("token-")+10 || !one.Unowned {
		t.Errorf("generated: %+v and %+v", one, two)
	}
	var configMap corev1.ConfigMap
	r.Applied[0].As(t, &configMap)
	if configMap.Data["rate"] != "1.1" {
		t.Errorf("got %+v", configMap)
	}
}

func TestGeneratedNamesAreStable(t *testing.T) {
	generate := func(c *call) error {
		secret := &corev1.Secret{}
		secret.GenerateName = "token-"
		c.Apply(secret)
		return nil
	}
	other := rate()
	other.UID = "2"
	first, again, another := handle(t, generate, rate()), handle(t, generate, rate(), setpointtest.Attempt(3)), handle(t, generate, other)
	if name := first.Applied[0].GetName(); name != again.Applied[0].GetName() || name == another.Applied[0].GetName() {
		t.Errorf("got %s, then %s, and %s of another object", name, again.Applied[0].GetName(), another.Applied[0].GetName())
	}
}

// Each step ends the call, until all are complete; an error is that of the step.
func TestSteps(t *testing.T) {
	var ran []string
	broken := true
	inSteps := func(c *call) error {
		for _, name := range []string{"one", "two"} {
			err := c.Step(name, func() error {
				ran = append(ran, name)
				if name == "two" && broken {
					return errors.New("no")
				}
				c.Message("did %s", name)
				return nil
			})
			if err != nil {
				return fmt.Errorf("step %s: %w", name, err)
			}
		}
		c.Message("all done")
		return nil
	}
	first := handle(t, inSteps, rate())
	if first.Err != nil || !slices.Equal(first.Steps, []string{"one"}) || first.Requeue == 0 || first.Message != "did one" {
		t.Errorf("first %+v", first)
	}
	if second := handle(t, inSteps, rate(), setpointtest.Steps(first.Steps...)); second.Err == nil || second.Err.Error() != "step two: no" {
		t.Errorf("second %+v", second)
	}
	broken = false
	third := handle(t, inSteps, rate(), setpointtest.Steps("one"))
	if third.Err != nil || !slices.Equal(third.Steps, []string{"one", "two"}) {
		t.Errorf("third %+v", third)
	}
	last := handle(t, inSteps, rate(), setpointtest.Steps("one", "two"))
	if last.Err != nil || last.Steps != nil || last.Requeue != 0 || last.Message != "all done" {
		t.Errorf("last %+v", last)
	}
	if !slices.Equal(ran, []string{"one", "two", "two"}) {
		t.Errorf("ran %q", ran)
	}
	if gone := handle(t, inSteps, rate(), setpointtest.Gone()); gone.Err != nil || gone.Steps != nil || gone.Message != "all done" {
		t.Errorf("of a gone object %+v", gone)
	}
}

func TestEventsAndDeletions(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = "web-0", "else"
	r := handle(t, func(c *call) error {
		c.Event("Published", "rate is %s", "1.1")
		c.Warn("Stale", "rate is old")
		c.Condition(metav1.Condition{Type: "Fresh", Status: metav1.ConditionFalse, Reason: "Stale", Message: "old"})
		c.Message("rate is %s", "1.1")
		c.Delete(pod)
		c.Evict(pod)
		c.EvictAll("app=web")
		c.DeleteAll(&corev1.ConfigMap{}, "old")
		c.Requeue(time.Minute)
		return nil
	}, rate())
	want := setpointtest.Result[Rate]{
		Events: []hook.Event{{Type: "Normal", Reason: "Published", Message: "rate is 1.1"}, {Type: "Warning", Reason: "Stale", Message: "rate is old"}},
		Deleted: []hook.Deletion{
			{APIVersion: "v1", Kind: "Pod", Namespace: "else", Name: "web-0"},
			{APIVersion: "v1", Kind: "Pod", Namespace: "else", Name: "web-0", Evict: true},
			{APIVersion: "v1", Kind: "Pod", Selector: "app=web", Evict: true},
			{APIVersion: "v1", Kind: "ConfigMap", Selector: "old"},
		},
		Conditions: []hook.Condition{{Type: "Fresh", Status: "False", Reason: "Stale", Message: "old"}},
		Message:    "rate is 1.1",
		Requeue:    time.Minute,
		Object:     r.Object,
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Fault H11: what a test makes up is what the handler gets on a cluster: of what it
// watches, with the items of lists, and names that have dots in brackets.
func TestChangesAreThoseOfTheLoop(t *testing.T) {
	was, now := rate(), rate()
	was.Spec.Currency = "CHF"
	was.Annotations, now.Annotations = map[string]string{"a.b/c": "1"}, map[string]string{"a.b/c": "2", "setpoint.dev/handled-by-x": "3"}
	was.ResourceVersion, now.ResourceVersion = "1", "2"
	for name, c := range map[string]struct {
		options []setpoint.HandlerOption
		want    string
	}{
		"all":       {nil, `[metadata.annotations["a.b/c"]: "1" -> "2" spec.currency: "CHF" -> "USD"]`},
		"one field": {[]setpoint.HandlerOption{setpoint.Field("spec.currency")}, `[spec.currency: "CHF" -> "USD"]`},
		"a name with dots": {[]setpoint.HandlerOption{setpoint.Field(`metadata.annotations["a.b/c"]`)},
			`[metadata.annotations["a.b/c"]: "1" -> "2"]`},
	} {
		t.Run(name, func(t *testing.T) {
			app := setpoint.New("rates")
			rates := setpoint.For[Rate](app, setpoint.Kind("example.org/v1", "Rate"))
			var got string
			rates.Handle("h", func(_ context.Context, c *call) error {
				got = fmt.Sprint(c.Changes)
				return nil
			}, c.options...).OnUpdate()
			if r := setpointtest.Handle(t, app, "h", now, setpointtest.UpdatedFrom(was)); r.Err != nil || got != c.want {
				t.Errorf("told %s, %v, want %s", got, r.Err, c.want)
			}
		})
	}
}

func TestHandlerRequest(t *testing.T) {
	was := rate()
	was.Spec.Currency, was.Labels = "CHF", nil
	first, second := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	first.Name, second.Name = "first", "second"
	handle(t, func(c *call) error {
		if c.Reason != setpoint.ReasonUpdate || c.Attempt != 2 || c.Old.Spec.Currency != "CHF" || c.Gone {
			t.Errorf("got %s %d %+v", c.Reason, c.Attempt, c.Old)
		}
		var changes []string
		for _, change := range c.Changes {
			changes = append(changes, change.Path+" "+string(change.From)+" "+string(change.To))
		}
		if diff := cmp.Diff([]string{`metadata.labels  {"app":"shop","tier":"front"}`, `spec.currency "CHF" "USD"`}, changes); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		maps := []corev1.ConfigMap{{}, {}, {}}
		c.Owned(&maps)
		if len(maps) != 2 || maps[1].Name != "second" {
			t.Errorf("owned: got %+v", maps)
		}
		var all []setpoint.Unstructured
		c.Owned(&all)
		if len(all) != 2 || all[0].GetKind() != "ConfigMap" {
			t.Errorf("owned: got %+v", all)
		}
		return nil
	}, rate(), setpointtest.UpdatedFrom(was), setpointtest.Attempt(2), setpointtest.Owned(first, second))
}

func TestMemoryIsOfOneObject(t *testing.T) {
	app := setpoint.New("rates")
	rates := setpoint.For[Rate](app, setpoint.Kind("example.com/v1", "Rate"))
	rates.Handle("count", func(_ context.Context, c *call) error {
		seen := setpoint.Memory[int](c)
		*seen++
		c.Message("%d", *seen)
		return nil
	}).OnCreate()
	other := rate()
	other.UID = "2"
	for _, c := range []struct {
		object *Rate
		want   string
	}{{rate(), "1"}, {rate(), "2"}, {other, "1"}, {rate(), "3"}} {
		if r := setpointtest.Handle(t, app, "count", c.object); r.Message != c.want {
			t.Errorf("object %s: got %s, want %s", c.object.UID, r.Message, c.want)
		}
	}
}

func TestHandlersList(t *testing.T) {
	var all []any
	for _, name := range []string{"web-0 shop web", "web-1 shop web", "db-0 shop db", "web-0 else web"} {
		parts := strings.Fields(name)
		pod := &corev1.Pod{}
		pod.Name, pod.Namespace, pod.Labels = parts[0], parts[1], map[string]string{"app": parts[2]}
		all = append(all, pod)
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := handle(t, func(c *call) error {
		if !c.Since.Equal(since) {
			t.Errorf("since %s", c.Since)
		}
		pods := []corev1.Pod{{}}
		if err := c.List(t.Context(), &pods, "app=web"); err != nil {
			return err
		}
		names := lists.Map(pods, func(pod corev1.Pod) string { return pod.Namespace + "/" + pod.Name })
		c.Message("%s", strings.Join(names, " "))
		return nil
	}, rate(), setpointtest.Stored(all...), setpointtest.Since(since))
	if r.Err != nil || r.Message != "shop/web-0 shop/web-1" {
		t.Errorf("got %q, %v", r.Message, r.Err)
	}
}

// Who may delete pods may not evict them: each is a permission of its own.
func TestEvictionsAreDeclared(t *testing.T) {
	app := setpoint.New("rates")
	rates := setpoint.For[Rate](app, setpoint.Kind("example.com/v1", "Rate"))
	rates.Deletes(&corev1.Pod{})
	rates.Owns(&corev1.Pod{})
	rates.Handle("publish", func(_ context.Context, c *call) error {
		c.EvictAll("app=web")
		return nil
	}).OnCreate()
	if r := setpointtest.Handle(t, app, "publish", rate()); r.Err == nil || r.Err.Error() != "EvictAll: declare it with Evicts" {
		t.Errorf("got %v", r.Err)
	}
}
