package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// reviewer plays a process with one controller of admission.
type reviewer struct {
	*process
	page inspect.Page
}

func (r *reviewer) Controllers(context.Context) ([]inspect.Controller, error) {
	return []inspect.Controller{{Name: "admissioncontroller.setpoint.dev/policy", Process: "setpoint", Everywhere: true}}, nil
}

func (r *reviewer) Objects(_ context.Context, _ string, q inspect.Query) (inspect.Page, error) {
	page := inspect.Page{Total: len(r.page.Objects), Reviews: true}
	for _, c := range r.page.Objects {
		if q.Namespace == "" || q.Namespace == c.Namespace {
			page.Objects = append(page.Objects, c)
		}
	}
	page.Matching = len(page.Objects)
	return page, nil
}

// Fault U3: `get` of a controller of admission said that it had no objects in all
// namespaces, cared for nine, and that -A shows those.
func TestGetOfReviews(t *testing.T) {
	other := pod("b")
	other.Namespace = "other"
	secret := inspect.Ref{Kind: inspect.Kind{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}, Namespace: "shop", Name: "s"}
	source := &reviewer{process: newProcess("setpoint"), page: inspect.Page{Objects: []inspect.Care{
		{Ref: pod("a"), Reviewed: "denied", Error: "no digest", Reviews: 2, Ran: time.Now().Add(-5 * time.Second)},
		{Ref: other, Reviewed: "allowed", Reviews: 1, Ran: time.Now().Add(-6 * time.Second)},
		{Ref: secret, Reviewed: "allowed", Reviews: 1, Ran: time.Now().Add(-7 * time.Second)},
	}}}
	get := func(everywhere bool, namespace, name string) (string, string) {
		var stdout, stderr strings.Builder
		flags := newGetFlags()
		flags.everywhere = everywhere
		r := &reading{
			program: &program{stdout: &stdout, stderr: &stderr}, readFlags: &flags.readFlags, found: host.Cluster{Namespace: namespace},
			sources: []inspect.Source{source}, patience: inspect.NewPatience(time.Minute),
			rights: &rights{asker: allowed{"list pods in ", "get pods in shop", "get pods in other"}},
		}
		g := getting{reading: r, getFlags: flags, word: "policy", name: name, of: inspect.Controller{Name: "policy", Everywhere: true}, source: source}
		if err := g.once(t.Context(), &table{}); err != nil {
			t.Fatal(err)
		}
		return stdout.String(), stderr.String()
	}
	const hidden = "warning: 1 reviewed object is left out, which you may not get\n"
	for _, c := range []struct {
		everywhere      bool
		namespace, name string
		stdout, stderr  string
	}{
		{false, "shop", "", "NAME    REVIEW   KEPT   AGE   MESSAGE\npod/a   denied   2      5s    no digest\n", hidden},
		{true, "shop", "", "NAMESPACE   NAME    REVIEW    KEPT   AGE   MESSAGE\nshop        pod/a   denied    2      5s    no digest\nother       pod/b   allowed   1      6s\n", hidden},
		{false, "shop", "pod/a", "NAME    REVIEW   KEPT   AGE   MESSAGE\npod/a   denied   2      5s    no digest\n", ""},
		{false, "empty", "", "", "policy keeps no such reviews in namespace empty. It keeps those of 3 objects in all; -A shows those of all namespaces.\n"},
		{true, "", "never", "", "policy keeps no such reviews in all namespaces. It keeps those of 3 objects in all.\n"},
	} {
		if stdout, stderr := get(c.everywhere, c.namespace, c.name); stdout != c.stdout || stderr != c.stderr {
			t.Errorf("in %q (all: %t) %q:\n%s%s", c.namespace, c.everywhere, c.name, stdout, stderr)
		}
	}
}

// What -A does not show, it is no help for.
func TestGetOfNone(t *testing.T) {
	var stderr strings.Builder
	flags := newGetFlags()
	g := getting{reading: &reading{program: &program{stderr: &stderr}, readFlags: &flags.readFlags, found: host.Cluster{Namespace: "shop"}}, getFlags: flags}
	g.of = inspect.Controller{Name: "teams", Kinds: []inspect.Kind{team().Kind}}
	g.tellNone(8)
	g.everywhere = true
	g.tellNone(8)
	const want = "teams has no such objects in namespace shop. It manages 8 objects in all; -A shows those of all namespaces.\n" +
		"teams has no such objects in all namespaces. It manages 8 objects in all.\n"
	if stderr.String() != want {
		t.Errorf("told %s", stderr.String())
	}
}
