package manager

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"testing"
)

// A process in a pod reads the token of its inspect endpoint from a Secret; one on a machine
// publishes it in a folder. Fault S10.
func TestInspectPermissions(t *testing.T) {
	for folder, want := range map[string]int{"": 1, "/folder": 0} {
		required := must.Get(RequiredPermissions(nil, Options{Namespace: "shop", InspectAddress: "127.0.0.1:8082", InspectDir: folder})).In(t)
		if rules := required.RulesByNamespace(); len(rules) != want {
			t.Errorf("with the folder %q: %+v", folder, rules)
		}
	}
}
