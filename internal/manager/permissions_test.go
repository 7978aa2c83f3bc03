package manager

import (
	"testing"
)

// A process in a pod reads the token of its inspect endpoint from a Secret; one on a machine
// publishes it in a folder. Fault S10.
func TestInspectPermissions(t *testing.T) {
	for folder, want := range map[string]int{"": 1, "/folder": 0} {
		required, err := RequiredPermissions(nil, Options{Namespace: "shop", InspectAddress: "127.0.0.1:8082", InspectDir: folder})
		if err != nil {
			t.Fatal(err)
		}
		if rules := required.RulesByNamespace(); len(rules) != want {
			t.Errorf("with the folder %q: %+v", folder, rules)
		}
	}
}
