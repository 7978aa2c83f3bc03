package manager

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
)

// Fault S7: a review of Leases with its hook down took the leader Lease and the process Lease
// from Setpoint itself.
func TestOwnLeasesAreExcludedFromReviews(t *testing.T) {
	m := &Manager{crds: crds.NewInstaller(crds.Options{}), options: Options{LeaderElection: leader.Election{Namespace: "ops", Name: "shop"}, Namespaces: []string{"blue"}}}
	exempt := m.ownObjects().Leases
	for _, want := range []string{"shop", m.options.LeaderElection.ProcessLeaseName(m.options.Namespaces)} {
		if !slices.Contains(exempt, types.NamespacedName{Namespace: "ops", Name: want}) {
			t.Errorf("%s is not exempt; exempt are %v", want, exempt)
		}
	}
}
