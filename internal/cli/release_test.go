package cli

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
)

// A release names the children that stay, and whose they are then.
func TestReleaseNamesChildren(t *testing.T) {
	useClusterWith(t, map[string]string{
		"controllers": `{"items":[]}`,
		"/shop/teams/red": `{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"red","namespace":"shop","uid":"u",
			"resourceVersion":"1","finalizers":["setpoint.dev/x"],"deletionTimestamp":"2026-03-01T12:00:30Z"}}`,
		"/shop/pods": `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[
			{"metadata":{"name":"own","namespace":"shop","uid":"p","ownerReferences":[{"apiVersion":"example.com/v1","kind":"Team","name":"red","uid":"u","controller":true}]}},
			{"metadata":{"name":"other","namespace":"shop","uid":"q"}}]}`,
	})
	code, out, problems := invoke(t.Context(), "release", "team/red")
	if code == command.OK || !strings.Contains(out, "Team shop/red: its children are left to the garbage collector: Pod shop/own\n") {
		t.Errorf("%d\n%s%s", code, out, problems)
	}
}
