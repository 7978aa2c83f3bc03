package main

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/setpointtest"
)

func TestChildrenHaveTheNameOfTheirParent(t *testing.T) {
	parent := &Shop{ObjectMeta: metav1.ObjectMeta{Name: "example", Namespace: "default"}, Spec: ShopSpec{Message: "hello"}}
	got := setpointtest.Compose(t, newApp(), "sync", parent)
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	want := []string{"ConfigMap", "Deployment", "PersistentVolumeClaim", "ServiceAccount", "Service"}
	if len(got.Children) != len(want) {
		t.Fatalf("%d children, want %d", len(got.Children), len(want))
	}
	for i, child := range got.Children {
		if child.GetKind() != want[i] || child.GetName() != "example" {
			t.Errorf("child %d is %s/%s, want %s/example", i, child.GetKind(), child.GetName(), want[i])
		}
	}
}

// TestEveryOrderOfEvents tries all orders in which edits, calls, writes and a crash can follow each other.
func TestEveryOrderOfEvents(t *testing.T) {
	parent := &Shop{ObjectMeta: metav1.ObjectMeta{Name: "example"}, Spec: ShopSpec{Message: "hello"}}
	setpointtest.Explore(t, newApp(), setpointtest.Exploration{
		Objects: []any{parent},
		Edits: []setpointtest.Edit{
			{Name: "another message", Patch: "spec: {message: bye}"},
			{Name: "delete it", Delete: true},
		},
		Invariants: []setpointtest.Invariant{
			{Name: "all children", Eventually: "children.filter(c, c.metadata.name == 'example').size() == 5 * parents.size()"},
		},
		Bounds: setpointtest.Bounds{Edits: 1, Crashes: 1, Time: 10 * time.Second},
	})
}
