package setpointtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/setpointtest"
)

// reviewApp is an app that has a say about pods: by what ConfigMaps say of them.
func reviewApp() *setpoint.App {
	app := setpoint.New("guard")
	rules := setpoint.NewIndex(setpoint.For[corev1.ConfigMap](app), func(m *corev1.ConfigMap) []string { return []string{m.Data["forbids"]} })
	pods := setpoint.For[corev1.Pod](app)
	pods.Mutate("inject", func(_ context.Context, r *setpoint.Review[corev1.Pod]) error {
		if slices.ContainsFunc(r.Object.Spec.Containers, func(c corev1.Container) bool { return c.Name == "sidecar" }) {
			return nil
		}
		r.Object.Spec.Containers = append(r.Object.Spec.Containers, corev1.Container{Name: "sidecar"})
		r.Audit("injected", "sidecar")
		r.Warn("has a %s now", "sidecar")
		return nil
	})
	pods.Mutate("more", func(_ context.Context, r *setpoint.Review[corev1.Pod]) error {
		r.Object.Spec.Containers = append(r.Object.Spec.Containers, corev1.Container{Name: "more"})
		return nil
	})
	pods.Validate("refuse", func(_ context.Context, r *setpoint.Review[corev1.Pod]) error {
		for _, rule := range rules.Get(r.Namespace) {
			r.Event(rule, "Refused", "pod %s", r.Name)
			return fmt.Errorf("rule %s: %w", rule.Name, setpoint.Deny("no pods here"))
		}
		return nil
	})
	pods.Validate("cases", func(_ context.Context, r *setpoint.Review[corev1.Pod]) error {
		switch {
		case r.Operation == setpoint.OperationDelete && r.Object == nil && r.Old.Name == "keep":
			return setpoint.Invalid("metadata.name: %s stays", r.Old.Name)
		case r.Operation == setpoint.OperationUpdate && r.Old.Spec.NodeName != r.Object.Spec.NodeName && r.DryRun && r.User.Name == "me":
			return &setpoint.Denial{Message: "moved", Reason: "Conflict"}
		case r.Operation == setpoint.OperationCreate && r.Subresource == "":
			return errors.New("cannot say")
		}
		return nil
	}, setpoint.On(setpoint.OperationCreate, setpoint.OperationUpdate, setpoint.OperationDelete))
	return app
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}}}
}

func TestReviewChangesAnObject(t *testing.T) {
	r := setpointtest.Review(t, reviewApp(), "inject", pod("a"))
	if r.Err != nil || r.Denial != nil || !r.Mutated || len(r.Object.Spec.Containers) != 2 || r.Audit["injected"] != "sidecar" || !slices.Equal(r.Warnings, []string{"has a sidecar now"}) {
		t.Errorf("got %+v", r)
	}
	r = setpointtest.Review(t, reviewApp(), "pod/inject", r.Object)
	if r.Err != nil || r.Mutated || len(r.Object.Spec.Containers) != 2 {
		t.Errorf("again: got %+v", r)
	}
}

func TestReviewReadsIndexes(t *testing.T) {
	rule := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "rules", Name: "quiet", UID: "7"}, Data: map[string]string{"forbids": "shop"}}
	r := setpointtest.Review(t, reviewApp(), "refuse", pod("a"), setpointtest.Indexed(rule))
	if r.Err != nil || r.Denial == nil || r.Denial.Message != "rule quiet: no pods here" || r.Denial.Reason != "" || r.Object != nil {
		t.Fatalf("got %+v", r)
	}
	want := hook.ObjectEvent{
		Event:      hook.Event{Type: "Normal", Reason: "Refused", Message: "pod a"},
		APIVersion: "v1", Kind: "ConfigMap", Namespace: "rules", Name: "quiet", UID: "7",
	}
	if !slices.Equal(r.Events, []hook.ObjectEvent{want}) {
		t.Errorf("got events %+v", r.Events)
	}
	if r = setpointtest.Review(t, reviewApp(), "refuse", pod("a")); r.Err != nil || r.Denial != nil || r.Mutated || r.Object.Name != "a" {
		t.Errorf("without a rule: got %+v", r)
	}
}

func TestReviewRequest(t *testing.T) {
	moved := pod("a")
	moved.Spec.NodeName = "b"
	for name, c := range map[string]struct {
		object  *corev1.Pod
		options []setpointtest.Option
		want    string
	}{
		"create":      {pod("a"), nil, "error cannot say"},
		"delete":      {pod("keep"), []setpointtest.Option{setpointtest.Operation(setpoint.OperationDelete)}, "Invalid metadata.name: keep stays"},
		"let go":      {pod("a"), []setpointtest.Option{setpointtest.Operation(setpoint.OperationDelete)}, ""},
		"update":      {moved, []setpointtest.Option{setpointtest.UpdatedFrom(pod("a")), setpointtest.AsUser(setpoint.User{Name: "me"}), setpointtest.DryRun()}, "Conflict moved"},
		"another":     {moved, []setpointtest.Option{setpointtest.UpdatedFrom(pod("a")), setpointtest.DryRun()}, ""},
		"subresource": {pod("a"), []setpointtest.Option{setpointtest.Subresource("status")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := setpointtest.Review(t, reviewApp(), "cases", c.object, c.options...)
			got := ""
			switch {
			case r.Err != nil:
				got = "error " + r.Err.Error()
			case r.Denial != nil:
				got = r.Denial.Reason + " " + r.Denial.Message
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// recordingTB notes what a test says of a function that is wrong.
type recordingTB struct {
	testing.TB

	messages string
}

func (f *recordingTB) Helper()                           {}
func (f *recordingTB) Errorf(format string, args ...any) { f.messages += fmt.Sprintf(format, args...) }

func TestReviewChecksIdempotence(t *testing.T) {
	f := &recordingTB{TB: t}
	setpointtest.Review(f, reviewApp(), "more", pod("a"))
	if !strings.Contains(f.messages, "more is not idempotent: asked again about its own result, it changes spec.containers[2]: nothing -> ") {
		t.Errorf("said %q", f.messages)
	}
}
