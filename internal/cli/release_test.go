package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
)

// A release names the children that stay, and whose they are then.
func TestReleaseNamesChildren(t *testing.T) {
	clitest.UseCluster(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		const controllers = "controllers"
		switch path := r.URL.Path; {
		case path == "/apis/example.com/v1/namespaces/shop/teams/red":
			_, _ = w.Write([]byte(`{"apiVersion":"example.com/v1","kind":"Team","metadata":{"name":"red","namespace":"shop","uid":"u","resourceVersion":"1",
				"finalizers":["setpoint.dev/x"],"deletionTimestamp":"2026-03-01T12:00:30Z"}}`))
		case path == "/api/v1/namespaces/shop/pods":
			_, _ = w.Write([]byte(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[
				{"metadata":{"name":"own","namespace":"shop","uid":"p","ownerReferences":[{"apiVersion":"example.com/v1","kind":"Team","name":"red","uid":"u","controller":true}]}},
				{"metadata":{"name":"other","namespace":"shop","uid":"q"}}]}`))
		case strings.HasSuffix(path, controllers):
			_, _ = w.Write([]byte(`{"items":[]}`))
		default:
			apiServer(w, r)
		}
	}))
	code, out, problems := invoke(t.Context(), "release", "team/red")
	if code == command.OK || !strings.Contains(out, "Team shop/red: its children are left to the garbage collector: Pod shop/own\n") {
		t.Errorf("%d\n%s%s", code, out, problems)
	}
}
