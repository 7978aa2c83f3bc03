package apply_test

import (
	"encoding/json"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// The result of an update that an apply had to follow says why, and has the version that the update stored.
func TestUpdatesOfCoOwnedObjects(t *testing.T) {
	desired := func(value string) []json.RawMessage {
		return []json.RawMessage{[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"` + value + `","both":"x"}}`)}
	}
	for name, coOwned := range map[string]bool{"alone": false, "with kubectl": true} {
		t.Run(name, func(t *testing.T) {
			k := newTestController(t, "setpoint.dev/applied-fields", true)
			k.setRules(rules(plan.InPlace, plan.ServerSide))
			k.reconcile(desired("1"))
			if coOwned {
				k.applyAs("kubectl", "configmaps/a", map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
					"metadata": map[string]any{"name": "a"}, "data": map[string]any{"both": "x"}})
			}
			results := k.cluster.writer(apply.Options{}).ApplyPlan(t.Context(), k.plan(desired("2")))
			if len(results) != 1 || results[0].Err != nil || results[0].Action.Update == nil {
				t.Fatalf("%+v", results)
			}
			result := results[0]
			if result.CoOwned != coOwned || (result.Updated != nil) != coOwned {
				t.Errorf("co-owned %v, updated %v", result.CoOwned, result.Updated)
			}
			if coOwned && result.Updated.Version() >= result.Stored.Version() {
				t.Errorf("the update stored version %d, the apply %d", result.Updated.Version(), result.Stored.Version())
			}
		})
	}
}
