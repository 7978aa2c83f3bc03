package conflicts

import (
	"fmt"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// A tenant's controller, limited to one namespace, precedes no cluster-wide one, however old it is.
func TestRank(t *testing.T) {
	declared := func(created, name, namespaces string) *object.Object {
		t.Helper()
		return must.Get(object.Parse(fmt.Appendf(nil, `{"apiVersion": "setpoint.dev/v1alpha1", "kind": "CompositeController",
			"metadata": {"name": %q, "creationTimestamp": %q}, "spec": {"parentResource": {"namespaces": %s}}}`, name, created, namespaces))).In(t)
	}
	const old, recent = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
	ranks := []string{
		Rank(declared(old, "wide", "[]")), Rank(declared(recent, "wide-a", "null")), Rank(declared(recent, "wide-b", "null")),
		youngestRank(declared("", "new", "null")),
		Rank(declared(old, "limited", `["shop"]`)), Rank(declared(recent, "limited", `["shop"]`)), youngestRank(declared("", "new", `["shop"]`)),
	}
	if !slices.IsSorted(ranks) || len(slices.Compact(slices.Clone(ranks))) != len(ranks) {
		t.Errorf("not in order: %q", ranks)
	}
}
