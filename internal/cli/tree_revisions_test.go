package cli

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault U6: the ControllerRevisions in which handlers store the state of an object are in its
// tree. No process has them in memory: the command reads them from the API server.
func TestTreeHasControllerRevisions(t *testing.T) {
	useClusterWith(t, map[string]string{
		"/shop/teams/red": `{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"red","namespace":"shop","uid":"u"}}`,
		"/shop/controllerrevisions": `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{},"items":[
			{"metadata":{"name":"red-kept","namespace":"shop","uid":"k","ownerReferences":[{"apiVersion":"example.com/v1","kind":"Team","name":"red","uid":"u"}]}},
			{"metadata":{"name":"other","namespace":"shop","uid":"o","ownerReferences":[{"apiVersion":"example.com/v1","kind":"Team","name":"blue","uid":"v"}]}}]}`,
	})
	revisions := object.Kind{Group: "apps", Version: "v1", Plural: "controllerrevisions", Kind: "ControllerRevision", Namespaced: true}
	teams := object.Kind{Group: "example.com", Version: "v1", Plural: "teams", Kind: "Team", Namespaced: true}
	for _, keeps := range [][]object.Kind{{revisions}, nil} {
		source := &historySource{clitest.WithControllers(clitest.NewFakeProcess("setpoint"), []inspect.Controller{{Name: "x/teams", Kinds: []object.Kind{teams}, RevisionKinds: keeps}})}
		serveProcess(t, source)
		code, out, problems := invoke(t.Context(), "tree", "team/red")
		if code != command.OK || strings.Contains(out, "ControllerRevision shop/red-kept") != (keeps != nil) || strings.Contains(out, "other") {
			t.Errorf("keeps %v: %d, %s\n%s", keeps, code, problems, out)
		}
	}
}
