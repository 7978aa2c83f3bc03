package object_test

import (
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// An owner reference from another namespace is forged, or a mistake.
func TestBesideOwner(t *testing.T) {
	in := func(namespace string) *object.Object {
		t.Helper()
		o, err := object.Parse(fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": %q}}`, namespace))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for owner, want := range map[string]int{"web": 2, "shop": 1, "other": 0, "": 3} {
		if got := object.BesideOwner([]*object.Object{in("web"), in("shop"), in("web")}, in(owner)); len(got) != want {
			t.Errorf("owner in %q: %d objects, want %d", owner, len(got), want)
		}
	}
}
