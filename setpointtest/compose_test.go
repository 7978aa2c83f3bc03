package setpointtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/setpointtest"
)

type composeContext = setpoint.ComposeContext[Rate]

// syncRate calls the function sync of an app for a rate.
func syncRate(t *testing.T, name string, do func(*composeContext) error, parent *Rate, options ...setpointtest.Option) setpointtest.ComposeResult[Rate] {
	t.Helper()
	app := setpoint.New("rates")
	rates := setpoint.Compose[Rate](app, setpoint.Kind("example.com/v1", "Rate"))
	rates.Owns(&corev1.ConfigMap{})
	rates.Owns(&corev1.Secret{}, setpoint.UpdateStrategy(setpoint.Recreate))
	rates.Sync(func(_ context.Context, f *composeContext) error { return do(f) })
	rates.Finalize(func(_ context.Context, f *composeContext) error { return do(f) })
	return setpointtest.Compose(t, app, name, parent, options...)
}

func named(name string) *corev1.ConfigMap {
	o := &corev1.ConfigMap{}
	o.Name, o.Namespace = name, "shop"
	return o
}

func TestSyncReturnsDesiredChildren(t *testing.T) {
	secret := &corev1.Secret{}
	secret.Name = "token"
	got := syncRate(t, "sync", func(f *composeContext) error {
		var maps []corev1.ConfigMap
		f.Children(&maps)
		var related []corev1.Secret
		f.Related(&related)
		if len(maps) != 2 || len(related) != 1 || f.Finalizing {
			t.Errorf("got %d children, %d related", len(maps), len(related))
		}
		if found := setpoint.Child[corev1.ConfigMap](f, "b"); found == nil || found.Name != "b" {
			t.Errorf("got child %v", found)
		}
		if found := setpoint.Child[corev1.ConfigMap](f, "c"); found != nil {
			t.Errorf("got child %v", found)
		}
		f.Apply(&corev1.ConfigMap{Data: map[string]string{"rate": "1.1"}}, &corev1.Secret{})
		f.Parent.Status.Rate = "2"
		f.Event("Made", "it is %d", 2)
		f.Message("it is %d", 2)
		f.Requeue(time.Minute)
		return nil
	}, rate(), setpointtest.Owned(named("a"), named("b")), setpointtest.Related(secret))
	must.Succeed(t, got.Err)
	if got.Parent.Status.Rate != "2" || len(got.Parent.Status.Places) != 2 || got.Message != "it is 2" || got.Requeue != time.Minute {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]hook.Event{{Type: "Normal", Reason: "Made", Message: "it is 2"}}, got.Events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(got.Children) != 2 || got.Children[0].GetName() != "dollar" || got.Children[1].GetKind() != "Secret" {
		t.Errorf("got children %v", got.Children)
	}
}

func TestUnknownStatusFieldsAreKept(t *testing.T) {
	app := setpoint.New("rates")
	rates := setpoint.Compose[Rate](app, setpoint.Kind("example.com/v1", "Rate"))
	rates.Sync(func(_ context.Context, f *composeContext) error {
		f.Parent.Status.Rate = "2"
		return nil
	})
	whole := map[string]any{
		"apiVersion": "example.com/v1", "kind": "Rate", "metadata": map[string]any{"name": "dollar"},
		"spec":   map[string]any{"currency": "USD", "unknown": "x"},
		"status": map[string]any{"rate": "1", "unknown": map[string]any{"by": "others"}},
	}
	got := setpointtest.Compose(t, app, "sync", &whole)
	must.Succeed(t, got.Err)
	want := map[string]any{"rate": "2", "unknown": map[string]any{"by": "others"}}
	if diff := cmp.Diff(want, (*got.Parent)["status"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParentIsFinalizedWithoutChildren(t *testing.T) {
	nothing := func(*composeContext) error { return nil }
	for name, c := range map[string]struct {
		do      func(*composeContext) error
		options []setpointtest.Option
		want    bool
	}{
		"nothing is left":    {nothing, nil, true},
		"children are left":  {nothing, []setpointtest.Option{setpointtest.Owned(named("a"))}, false},
		"children are to be": {func(f *composeContext) error { f.Apply(&corev1.Secret{}); return nil }, nil, false},
		"it takes time":      {func(f *composeContext) error { f.Requeue(time.Second); return nil }, nil, false},
		"it is to be again":  {func(f *composeContext) error { f.Requeue(0); return nil }, nil, false}, // Fault H9.
	} {
		t.Run(name, func(t *testing.T) {
			if got := syncRate(t, "finalize", c.do, rate(), c.options...); got.Err != nil || got.Finalized != c.want {
				t.Errorf("got %v, %v", got.Finalized, got.Err)
			}
		})
	}
	if got := syncRate(t, "sync", nothing, rate()); got.Finalized {
		t.Error("a parent that is not going away is finalized")
	}
}

func TestInvalidComposeResults(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*composeContext) error
		want string
	}{
		"another spec":    {func(f *composeContext) error { f.Parent.Spec.Note = "x"; return nil }, "only the status can be changed"},
		"other labels":    {func(f *composeContext) error { f.Parent.Labels["tier"] = "x"; return nil }, "only the status can be changed"},
		"a stranger":      {func(f *composeContext) error { f.Apply(&corev1.Pod{}); return nil }, "Apply: declare Pod of v1 with Owns"},
		"strangers' kids": {func(f *composeContext) error { f.Children(&[]corev1.Pod{}); return nil }, "Children: declare Pod of v1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := syncRate(t, "sync", c.do, rate())
			var terminal *hook.TerminalError
			if !errors.As(got.Err, &terminal) || !strings.Contains(got.Err.Error(), c.want) {
				t.Errorf("got %v, want a permanent error about %q", got.Err, c.want)
			}
		})
	}
}
