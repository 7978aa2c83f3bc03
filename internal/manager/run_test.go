package manager

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/compile"
)

func TestOldKubernetesIsRefused(t *testing.T) {
	t.Parallel()
	for served, supported := range map[string]bool{
		"v1.30.0": true, "v1.37.2": true, "v1.31.7-eks-1a2b3c": true, "v1.30.4+k3s1": true, "v1.33.1-gke.100": true, "v2.0.0": true,
		"v1.29.15": false, "v1.9.0": false, "v1.29.8-eks-abc": false,
		// Development builds have no version.
		"v0.0.0-master+$Format:%H$": true, "": true, "unknown": true,
	} {
		if err := CheckVersion(served); (err == nil) != supported {
			t.Errorf("%q: %v", served, err)
		}
	}
}

// A cluster that is not supported stays as it is: the Manager only reads its version.
func TestUnsupportedClusterStaysAsItIs(t *testing.T) {
	t.Parallel()
	var others atomic.Int32
	m := newManager(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			others.Add(1)
		}
		_, _ = io.WriteString(w, `{"major":"1","minor":"29","gitVersion":"v1.29.15"}`)
	}), Options{})
	err := m.Run(t.Context())
	if want := "the cluster runs Kubernetes v1.29.15, and Setpoint supports 1.30 and newer: upgrade the cluster, or use an older Setpoint"; err == nil || err.Error() != want {
		t.Errorf("Run returns %v, want %s", err, want)
	}
	if n := others.Load(); n > 0 {
		t.Errorf("%d other requests", n)
	}
}

// A process in a pod reads the token of its inspect endpoint from a Secret; one on a machine
// publishes it in a folder. Fault S10.
func TestInspectPermissions(t *testing.T) {
	for folder, want := range map[string]int{"": 1, "/folder": 0} {
		o := Options{Settings: compile.Settings{Namespace: "shop"}, InspectAddress: "127.0.0.1:8082", InspectDir: folder}.withDefaults()
		required := o.permissionsProcess().Required(nil)
		if rules := required.RulesByNamespace(); len(rules) != want {
			t.Errorf("with the folder %q: %+v", folder, rules)
		}
	}
}
