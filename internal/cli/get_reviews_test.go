package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// reviewSource plays a process with one controller of admission.
type reviewSource struct {
	*fakeProcess
	page model.Page
}

func (r *reviewSource) Controllers(context.Context) ([]model.Controller, error) {
	return []model.Controller{{Name: "admissioncontroller.setpoint.dev/policy", Process: "setpoint", AllReplicas: true}}, nil
}

func (r *reviewSource) Objects(_ context.Context, _ string, q model.Query) (model.Page, error) {
	page := model.Page{Total: len(r.page.Objects), Reviews: true}
	for _, c := range r.page.Objects {
		if q.Namespace == "" || q.Namespace == c.Namespace {
			page.Objects = append(page.Objects, c)
		}
	}
	page.Matching = len(page.Objects)
	return page, nil
}

// Fault U3: `get` of an admission controller said that it had no objects in all
// namespaces, managed nine, and that -A shows those.
func TestGetReviews(t *testing.T) {
	other := pod("b")
	other.Namespace = "other"
	secret := object.Ref{Kind: object.Kind{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}, Namespace: "shop", Name: "s"}
	source := &reviewSource{fakeProcess: newFakeProcess("setpoint"), page: model.Page{Objects: []model.ObjectState{
		{Ref: pod("a"), ReviewOutcome: "denied", Error: "no digest", Reviews: 2, Ran: time.Now().Add(-5 * time.Second)},
		{Ref: other, ReviewOutcome: "allowed", Reviews: 1, Ran: time.Now().Add(-6 * time.Second)},
		{Ref: secret, ReviewOutcome: "allowed", Reviews: 1, Ran: time.Now().Add(-7 * time.Second)},
	}}}
	get := func(everywhere bool, namespace, name string) (string, string) {
		var stdout, stderr strings.Builder
		flags := newGetFlags()
		flags.everywhere = everywhere
		r := &session{
			program: &program{stdout: &stdout, stderr: &stderr}, readFlags: &flags.readFlags, target: manager.Cluster{Namespace: namespace},
			sources: []model.Source{source}, timeouts: model.NewTimeouts(time.Minute),
			permissions: &permissions{accessReviewer: allowedVerbs{"list pods in ", "get pods in shop", "get pods in other"}},
		}
		g := objectGetter{session: r, flags: flags, controllerArg: "policy", name: name, selected: model.Controller{Name: "policy", AllReplicas: true}, source: source}
		if err := g.showAll(t.Context(), &table{}); err != nil {
			t.Fatal(err)
		}
		return stdout.String(), stderr.String()
	}
	const hidden = "warning: 1 reviewed object is hidden: you cannot get them\n"
	for _, c := range []struct {
		everywhere      bool
		namespace, name string
		stdout, stderr  string
	}{
		{false, "shop", "", "NAME    REVIEW   KEPT   AGE   MESSAGE\npod/a   denied   2      5s    no digest\n", hidden},
		{true, "shop", "", "NAMESPACE   NAME    REVIEW    KEPT   AGE   MESSAGE\nshop        pod/a   denied    2      5s    no digest\nother       pod/b   allowed   1      6s\n", hidden},
		{false, "shop", "pod/a", "NAME    REVIEW   KEPT   AGE   MESSAGE\npod/a   denied   2      5s    no digest\n", ""},
		{false, "empty", "", "", "policy has no matching reviews in namespace empty. It has reviews of 3 objects in total; use -A for all namespaces.\n"},
		{true, "", "never", "", "policy has no matching reviews in any namespace. It has reviews of 3 objects in total.\n"},
	} {
		if stdout, stderr := get(c.everywhere, c.namespace, c.name); stdout != c.stdout || stderr != c.stderr {
			t.Errorf("in %q (all: %t) %q:\n%s%s", c.namespace, c.everywhere, c.name, stdout, stderr)
		}
	}
}

// What -A does not show, it is no help for.
func TestGetNone(t *testing.T) {
	var stderr strings.Builder
	flags := newGetFlags()
	g := objectGetter{session: &session{program: &program{stderr: &stderr}, readFlags: &flags.readFlags, target: manager.Cluster{Namespace: "shop"}}, flags: flags}
	g.selected = model.Controller{Name: "teams", Kinds: []object.Kind{team().Kind}}
	g.warnNone(8)
	g.flags.everywhere = true
	g.warnNone(8)
	const want = "teams has no matching objects in namespace shop. It manages 8 objects in total; use -A for all namespaces.\n" +
		"teams has no matching objects in any namespace. It manages 8 objects in total.\n"
	if stderr.String() != want {
		t.Errorf("told %s", stderr.String())
	}
}
