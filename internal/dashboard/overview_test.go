package dashboard

import (
	"testing"

	authorization "k8s.io/api/authorization/v1"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Users see a watch only if they may list its objects.
func TestWatchesRequireListPermission(t *testing.T) {
	api := newReviewAPI(t, func(of *authorization.ResourceAttributes) bool {
		return of.Verb == "list" && of.Resource == "teams" && of.Namespace == "shop"
	})
	teams, vaults := teamsController().Kinds[0], object.Kind{Group: "example.org", Version: "v1", Plural: "vaults", Kind: "Vault", Namespaced: true}
	process := &fakeSource{name: "setpoint"}
	process.process.Watches = []inspect.Watch{
		{Selection: "teams.v1.example.org in shop", Kind: teams, Namespace: "shop", Objects: 3, Bytes: 1},
		{Selection: "teams.v1.example.org in bank", Kind: teams, Namespace: "bank", Objects: 1000, Bytes: 1},
		{Selection: "vaults.v1.example.org with tier=gold", Kind: vaults, Objects: 1000, Bytes: 1, Error: "no vaults"},
		{Selection: "of another version", Objects: 1000, Bytes: 1},
	}
	body := newProxyServer(t, api, process)("/").Body.String()
	wantTexts(t, body, "teams.v1.example.org in shop", "3 objects, 1 B", "that you may list", "3 watches are not shown",
		"!bank", "!vaults", "!gold", "!another version", "!1,000", "!1003")
	// The process itself may see all.
	wantTexts(t, get(t, newServer(t, process), "/").Body.String(), "vaults.v1.example.org with tier=gold", "another version")
}
