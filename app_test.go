package setpoint_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

func publish(context.Context, *setpoint.Call[ExchangeRate]) error { return nil }

func remove(context.Context, *setpoint.Call[ExchangeRate]) error { return nil }

type service struct{}

func (*service) serve(context.Context, *setpoint.Call[ExchangeRate]) error { return nil }

// flagsOnly is what a program that ignores the documentation may try as its dashboard.
type flagsOnly struct{}

func (flagsOnly) RegisterFlags(*flag.FlagSet) {}

func generic[T any](context.Context, *setpoint.Call[T]) error { return nil }

// rates is an app about exchange rates.
func rates(options ...setpoint.KindOption) (*setpoint.App, *setpoint.Handlers[ExchangeRate]) {
	app := setpoint.New("exchangerates")
	app.InstallCRDs([]byte(rateCRD))
	return app, setpoint.For[ExchangeRate](app, options...)
}

func TestAppProblems(t *testing.T) {
	type handlers = *setpoint.Handlers[ExchangeRate]
	for name, c := range map[string]struct {
		wrong func(*setpoint.App, handlers)
		want  []string
	}{
		"no handler":      {func(*setpoint.App, handlers) {}, []string{"exchangerates/exchangerate: register a handler"}},
		"nil":             {func(_ *setpoint.App, h handlers) { h.Handle("nil", nil).OnCreate() }, []string{"handler \"nil\" of exchangerates/exchangerate: the function is nil"}},
		"related without": {func(_ *setpoint.App, h handlers) { h.Handle("publish", publish).OnRelated() }, []string{"OnRelated: requires Watches"}},
		"no map function": {func(app *setpoint.App, h handlers) {
			setpoint.Watches[ExchangeRate, corev1.Secret](h, setpoint.For[corev1.Secret](app), nil)
		}, []string{"Watches: the function is nil"}},
		"related of another app": {func(_ *setpoint.App, h handlers) {
			setpoint.Watches(h, setpoint.For[corev1.Secret](setpoint.New("other")), func(*corev1.Secret) []types.NamespacedName { return nil })
		}, []string{"Watches: the related kind is of another app"}},
		"former names": {func(_ *setpoint.App, h handlers) {
			h.Handle("publish", publish, setpoint.FormerName("A"), setpoint.FormerName("remove")).OnCreate()
			h.Handle("remove", remove).OnDelete()
		}, []string{`FormerName("A"): the name must be lower-case`, `FormerName("remove"): a handler has this name, or had it`}},
		"a check": {func(app *setpoint.App, _ handlers) {
			healthy := func(context.Context) error { return nil }
			app.AddHealthCheck("", nil)
			app.AddReadyCheck("cache", healthy)
			app.AddReadyCheck("cache", healthy)
		}, []string{"AddHealthCheck: the name is empty", `AddHealthCheck(""): the function is nil`, `AddReadyCheck("cache"): another check has this name`}},
		"a dashboard of one's own": {func(app *setpoint.App, h handlers) {
			h.Handle("publish", publish).OnCreate()
			app.UseDashboard(flagsOnly{})
		}, []string{"UseDashboard: must be a *dashboard.Options, not a setpoint_test.flagsOnly"}},
		"two of a name": {func(_ *setpoint.App, h handlers) {
			h.Handle("publish", publish).OnCreate()
			h.Handle("publish", remove).OnUpdate()
		}, []string{`"publish"`, "two handlers have this name: rename one of them"}},
		"a field path": {func(_ *setpoint.App, h handlers) {
			h.Handle("publish", publish, setpoint.Field("spec..x", "spec.a[0]")).OnUpdate()
		}, []string{`Field: "spec..x" is no field path: a name is missing`, `"spec.a[0]" is no field path: list items cannot be selected`}},
		// Fault H11: a Go program takes no path that a HandlerController refuses.
		"a field of the system": {func(_ *setpoint.App, h handlers) {
			h.Handle("publish", publish, setpoint.Field("apiVersion", "metadata.resourceVersion", "metadata.annotations.example.com/note")).OnUpdate()
		}, []string{`Field: "apiVersion" never changes`, `Field: "metadata.resourceVersion" never changes or changes with every write`, `leads into a string; quote a name that contains dots: metadata.annotations["example.com/note"]`}},
		"initial delay": {func(_ *setpoint.App, h handlers) { h.Handle("publish", publish, setpoint.InitialDelay(0)).OnCreate() }, []string{"InitialDelay: requires Every"}},
		"negative": {func(_ *setpoint.App, h handlers) {
			h.Handle("publish", publish, setpoint.Timeout(-1)).Every(-time.Second)
		}, []string{"Every(-1s): must be greater", "Timeout: must not be negative"}},
		"a backoff": {func(_ *setpoint.App, h handlers) {
			h.Handle("publish", publish, setpoint.Backoff(time.Minute, time.Second)).OnCreate()
		}, []string{"the maximum is shorter"}},
		"idle without": {func(_ *setpoint.App, h handlers) { h.Handle("publish", publish, setpoint.Idle(time.Minute)).OnCreate() }, []string{"Idle: requires the reason Timer"}},
		"settle without": {func(_ *setpoint.App, h handlers) {
			h.Handle("publish", publish, setpoint.Debounce(time.Minute)).OnCreate()
		}, []string{"Debounce: requires the reason Update"}},
		"optional without": {func(_ *setpoint.App, h handlers) { h.Handle("publish", publish, setpoint.Optional()).OnCreate() }, []string{"Optional: requires the reason Delete"}},
		"two timers":       {func(_ *setpoint.App, h handlers) { h.Handle("publish", publish).Every(time.Hour).Schedule("@hourly") }, []string{"a handler has one timer"}},
		"a calendar":       {func(_ *setpoint.App, h handlers) { h.Handle("publish", publish).Schedule("* *") }, []string{"expected exactly 5 fields"}},
		"drift of nothing": {func(_ *setpoint.App, h handlers) { h.Handle("publish", publish).OnDrift() }, []string{"OnDrift: requires Owns"}},
		"an unknown child": {func(_ *setpoint.App, h handlers) { h.Handle("publish", publish).OnCreate(); h.Owns(&service{}) }, []string{"Owns: unknown kind of setpoint_test.service"}},
		"selectors":        {func(_ *setpoint.App, h handlers) { h.Handle("publish", publish, setpoint.Labels("a b")).OnCreate() }, []string{"Labels: "}},
		"another's When": {func(_ *setpoint.App, h handlers) {
			h.Handle("publish", publish, setpoint.When(func(_, _ *corev1.Pod) bool { return true })).OnCreate()
		}, []string{"the type of When is func(*v1.Pod, *v1.Pod) bool"}},
		"a daemon of the same name": {func(_ *setpoint.App, h handlers) {
			h.Daemon("publish", publish)
			h.Handle("publish", publish).OnCreate()
		}, []string{"two handlers have this name"}},
		"no reason": {func(_ *setpoint.App, h handlers) { h.Handle("publish", publish) }, []string{"has no reason to be called: add one, such as OnCreate or Every"}},
		"no CRD": {func(app *setpoint.App, h handlers) {
			h.Handle("publish", publish).OnCreate()
			app.InstallCRDs([]byte("kind: Pod"))
		}, []string{"must be a CustomResourceDefinition, not a Pod"}},
		"what is not watched is not kept": {func(_ *setpoint.App, h handlers) {
			h.Handle("publish", publish, setpoint.KeepPreviousState(), setpoint.Field("spec.source"), setpoint.FieldChanged("spec.source.host"), setpoint.FieldChanged("spec.note")).OnUpdate()
		}, []string{"KeepPreviousState requires that the handler watches the field spec.note of FieldChanged"}},
		"a status is not kept": {func(_ *setpoint.App, h handlers) {
			h.Handle("publish", publish, setpoint.KeepPreviousState(), setpoint.FieldChanged("spec.note"), setpoint.FieldChanged("status.rate")).OnUpdate()
		}, []string{"watches the field status.rate of FieldChanged"}},
		"nothing to keep": {func(_ *setpoint.App, h handlers) {
			h.Handle("publish", publish, setpoint.KeepPreviousState()).OnCreate()
		}, []string{"KeepPreviousState: requires the reason Update"}},
		"Secrets are not kept": {func(app *setpoint.App, h handlers) {
			h.Handle("publish", publish).OnCreate()
			setpoint.For[corev1.Secret](app).Handle("generic", generic[corev1.Secret], setpoint.KeepPreviousState()).OnUpdate()
		}, []string{`handler "generic" of exchangerates/secret: KeepPreviousState: an annotation with fields of a Secret would show its data`}},
		"two controllers": {func(app *setpoint.App, h handlers) {
			h.Handle("publish", publish).OnCreate()
			setpoint.For[ExchangeRate](app).Handle("publish", publish).OnCreate()
		}, []string{"two controllers are named exchangerates/exchangerate"}},
		"a type of no kind": {func(app *setpoint.App, h handlers) {
			h.Handle("publish", publish).OnCreate()
			setpoint.For[service](app).Handle("generic", generic[service]).OnCreate()
		}, []string{"unknown kind of setpoint_test.service"}},
	} {
		t.Run(name, func(t *testing.T) {
			app, h := rates()
			c.wrong(app, h)
			_, err := sdk.Of(app).Handler("publish")
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v\n\twant an error about %q", err, want)
				}
			}
		})
	}
}

func TestHandlersAreFoundByName(t *testing.T) {
	app, h := rates()
	h.Handle("publish", publish, setpoint.Field("spec.currency")).OnCreate().OnUpdate()
	h.Handle("serve", (&service{}).serve).OnDelete()
	for _, name := range []string{"publish", "serve", "exchangerate/publish"} {
		if _, err := sdk.Of(app).Handler(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sdk.Of(app).Handler("none"); err == nil || !strings.Contains(err.Error(), `no function named "none", only exchangerate/publish, exchangerate/serve`) {
		t.Errorf("none: got %v", err)
	}
}

func TestKindsAreKnownByTheirTypes(t *testing.T) {
	app, _ := rates()
	for _, c := range []struct {
		object any
		want   string
	}{
		{&corev1.ConfigMap{}, "ConfigMap of v1"},
		{&ExchangeRate{}, "ExchangeRate of example.com/v1"},
		{ExchangeRate{}, "ExchangeRate of example.com/v1"},
		{map[string]any{"apiVersion": "a/v1", "kind": "B"}, "B of a/v1"},
		{&setpoint.Unstructured{Object: map[string]any{"apiVersion": "a/v1", "kind": "B"}}, "B of a/v1"},
	} {
		got, err := sdk.Of(app).KindOf(c.object)
		if err != nil || got.String() != c.want {
			t.Errorf("%T: got %s, %v; want %s", c.object, got, err, c.want)
		}
	}
	for _, unknown := range []any{nil, &setpoint.Unstructured{}, map[string]any{}, 7} {
		if _, err := sdk.Of(app).KindOf(unknown); err == nil {
			t.Errorf("%T: is of a kind", unknown)
		}
	}
}

func TestErrorsSetTheRetryTime(t *testing.T) {
	cause := errors.New("the service is down")
	for _, err := range []error{setpoint.RetryAfter(time.Second, cause), setpoint.Permanent(cause)} {
		if !errors.Is(err, cause) || err.Error() != cause.Error() {
			t.Errorf("%T: %v does not wrap its cause", err, err)
		}
	}
	if setpoint.Permanent(nil).Error() == "" {
		t.Error("an error of nil says nothing")
	}
}
