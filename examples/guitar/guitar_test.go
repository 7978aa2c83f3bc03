package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/setpointtest"
)

func TestOpinions(t *testing.T) {
	for want, brands := range map[string][]string{
		positive: {"coleclark", "fender", "gibson", "ibanez", "martin", "seagull", "squier", "washburn", "Fender", "GIBSON", " Martin "},
		neutral:  {"epiphone", "guild", "gretsch", "jackson", "ovation", "prs", "rickenbacker", "rickenbauer", "taylor", "yamaha", "PRS", "RickenBacker"},
		unknown:  {"", "cole clark", "fenders", "My Uncle"},
	} {
		for _, brand := range brands {
			if got := opinion(brand); got != want {
				t.Errorf("%q: %s; want: %s", brand, got, want)
			}
		}
	}
}

func TestAReviewIsWritten(t *testing.T) {
	for name, spec := range map[string]GuitarSpec{
		"the first":        {Brand: "Gibson"},
		"another one":      {Brand: "Gibson", Comment: unknown},
		"the comment left": {Brand: "Gibson", Comment: positive},
	} {
		r := setpointtest.Handle(t, newApp(), "review", &Guitar{Spec: spec})
		if r.Err != nil {
			t.Fatalf("%s: %v", name, r.Err)
		}
		if diff := cmp.Diff(GuitarSpec{Brand: "Gibson", Review: true, Comment: positive}, r.Object.Spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(r.Events) != 1 || r.Events[0].Message != positive || r.Status != nil {
			t.Errorf("%s: events %v, status %v", name, r.Events, r.Status)
		}
	}
}

// deploy.yaml has what `guitar rbac --namespace guitar` prints, as it stands.
func TestDeployManifestMatchesRBAC(t *testing.T) {
	inside := setpoint.Options{Namespace: "guitar", LeaderElection: setpoint.LeaderElection{Enabled: true}, InspectAddress: "auto"}
	rbac, err := newApp().RBAC(t.Context(), "guitar", inside)
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
