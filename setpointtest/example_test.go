package setpointtest_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/setpointtest"
)

// label is the handler that is tried.
func label(_ context.Context, c *setpoint.Call[corev1.ConfigMap]) error {
	c.Object.Labels = map[string]string{"seen": "yes"}
	return nil
}

func newApp() *setpoint.App {
	app := setpoint.New("labels")
	setpoint.For[corev1.ConfigMap](app).Handle("label", label).OnCreate()
	return app
}

// A test of a handler, in a program of its own.
func ExampleHandle() {
	_ = func(t *testing.T) {
		object := &corev1.ConfigMap{}
		object.Name = "settings"
		did := setpointtest.Handle(t, newApp(), "label", object)
		if did.Err != nil || did.Object.Labels["seen"] != "yes" {
			t.Errorf("got %+v", did)
		}
	}
}

// A test of a review, in a program of its own.
func ExampleReview() {
	_ = func(t *testing.T) {
		r := setpointtest.Review(t, reviewApp(), "inject", &corev1.Pod{})
		if r.Err != nil || len(r.Object.Spec.Containers) != 1 {
			t.Errorf("got %+v", r)
		}
	}
}

// A test of all orders of events, calls, writes, crashes and edits, in a program of its own.
func ExampleExplore() {
	_ = func(t *testing.T) {
		object := &corev1.ConfigMap{}
		object.Name = "settings"
		setpointtest.Explore(t, newApp(), setpointtest.Exploration{
			Objects:    []any{object},
			Edits:      []setpointtest.Edit{{Name: "another value", Patch: "data: {color: blue}"}},
			Invariants: []setpointtest.Invariant{{Name: "labelled", Eventually: "objects.all(o, o.metadata.?labels.seen.orValue('') == 'yes')"}},
			Bounds:     setpointtest.Bounds{Edits: 1, Crashes: 1, Faults: 1},
		})
	}
}
