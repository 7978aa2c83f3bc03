package main

import (
	"os"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint"
)

// deploy.yaml has what `config-restart rbac --namespace config-restart` prints, as
// it stands.
func TestDeployManifestMatchesRBAC(t *testing.T) {
	inside := setpoint.Options{Namespace: "config-restart", LeaderElection: setpoint.LeaderElection{Enabled: true}, InspectAddress: "auto"}
	rbac, err := newApp().RBAC(t.Context(), "config-restart", inside)
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := os.ReadFile("deploy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(deploy), "---\n"+string(rbac)+"---\n") {
		t.Errorf("deploy.yaml has other permissions than it takes; put this there, between lines of three dashes:\n%s", rbac)
	}
}

// Limited to namespaces it takes nothing elsewhere.
func TestNamespacesLimitThePermissions(t *testing.T) {
	rbac, err := newApp().RBAC(t.Context(), "config-restart", setpoint.Options{Namespaces: []string{"shop"}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(rbac), "kind: ClusterRole") || !strings.Contains(string(rbac), "namespace: shop") {
		t.Errorf("got:\n%s", rbac)
	}
}
