package manager

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Fault S7: a review of Leases with its hook down took the leader Lease and the process Lease
// from Setpoint itself.
func TestOwnLeasesAreExcludedFromReviews(t *testing.T) {
	m := &Manager{dependencies: dependencies{CRDs: crds.NewInstaller(crds.Options{})}, options: Options{LeaderElection: leader.Election{Namespace: "ops", Name: "shop"}, Settings: compile.Settings{Namespaces: []string{"blue"}}}}
	exempt := m.ownObjects().Leases
	for _, want := range []string{"shop", m.options.LeaderElection.ProcessLeaseName(m.options.Namespaces)} {
		if !slices.Contains(exempt, types.NamespacedName{Namespace: "ops", Name: want}) {
			t.Errorf("%s is not exempt; exempt are %v", want, exempt)
		}
	}
}

// Fault H13: a CRD that is deleted while the program runs stays deleted. /readyz and an event
// report it.
func TestDeletedCRDStaysDeleted(t *testing.T) {
	s := &fakeAPIServer{}
	m := startManager(t, s, Options{GoControllers: []controllers.GoController{shopController("keeper")}, CRDs: [][]byte{[]byte(shopsManifest)}})
	must.Eventually(t, "ready", func() bool { return readyz(m) == "ok" })
	s.awaitWatch(t)
	s.deleteCRD()
	const want = "deleted while this program runs: CustomResourceDefinition shops.example.org; " +
		"restart the program to create it again"
	must.Eventually(t, "not ready", func() bool { return readyz(m) == want })
	must.Eventually(t, "an event", func() bool {
		_, events := s.counts()
		return len(events) == 1 && strings.HasPrefix(events[0], "shops.example.org DefinitionDeleted deleted while setpoint runs; restart setpoint to create it again")
	})
	// A new leader election does not recreate it.
	must.Succeed(t, m.CRDs.Install(t.Context()))
	if applied, _ := s.counts(); applied != 1 {
		t.Errorf("applied %d times", applied)
	}
	s.apply(httptest.NewRequest(http.MethodPatch, shopsCRDPath, strings.NewReader(shopsManifest)))
	must.Eventually(t, "ready again", func() bool { return readyz(m) == "ok" })
}
