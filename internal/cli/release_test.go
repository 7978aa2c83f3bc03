package cli

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// A release names the children that stay, and whose they are then.
func TestReleaseNamesChildren(t *testing.T) {
	cluster(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	var out, problems bytes.Buffer
	p := &program{stdout: &out, stderr: &problems, stdin: strings.NewReader("")}
	code := p.execute(t.Context(), []string{"release", "team/red"})
	if code == codeOK || !strings.Contains(out.String(), "Team shop/red: its children are left to the garbage collector: Pod shop/own\n") {
		t.Errorf("%d\n%s%s", code, &out, &problems)
	}
}

// The last way out of a deletion is named where a call of it fails, and only there.
func TestWhyNamesRelease(t *testing.T) {
	pending := &timeline.Deletion{Finalizers: []string{"setpoint.dev/x"}}
	for name, c := range map[string]struct {
		state    inspect.State
		deletion *timeline.Deletion
		says     bool
	}{
		"fails in deletion": {inspect.StateFailing, pending, true},
		"waits in deletion": {inspect.StateQueued, pending, false},
		"fails":             {inspect.StateFailing, nil, false},
	} {
		var out bytes.Buffer
		a := explanation{Deletion: c.deletion, States: []visibleState{{ObjectState: inspect.ObjectState{Ref: team(), Controller: "x/teams", State: c.state}}}}
		printer{out: &out, now: noon}.printAdvice(a)
		if strings.Contains(out.String(), "`setpoint release team") != c.says {
			t.Errorf("%s: %s", name, &out)
		}
	}
}
