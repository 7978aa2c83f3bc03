package client

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestLastErrorNeedsAccess(t *testing.T) {
	declared := object.Ref{Kind: object.Kind{Plural: "compositecontrollers"}, Name: "teams"}
	said := inspect.Controller{
		Declared: &declared, Kinds: []object.Kind{clitest.Team().Kind}, Last: &inspect.Failure{Message: "no"},
		Conditions: []inspect.Condition{{Type: "Ready", Reason: "HookFailing", Message: "no"}},
	}
	for right, want := range map[string][2]bool{
		"get compositecontrollers in ": {true, true}, "list teams in ": {true, true}, "list teams in shop": {}, "list pods in ": {},
	} {
		got, hidden := (&Client{AccessReviewer: clitest.AllowedVerbs{right}}).Controllers(t.Context(), []inspect.Controller{said})
		text, err := json.Marshal(got)
		if err != nil || len(got) == 1 != want[0] || len(got)+hidden != 1 || strings.Contains(string(text), `"no"`) != want[1] {
			t.Errorf("with %q: %s, %d hidden, %v", right, text, hidden, err)
		}
	}
	if said.Last == nil || said.Ready().Message == "" {
		t.Error("what was read was changed")
	}
}

// What a write was refused with may quote what was to be written.
func TestWriteErrorsNeedAccess(t *testing.T) {
	care := inspect.ObjectState{Ref: clitest.Team(), Error: "it says open sesame", Mentions: []inspect.Location{{Kind: clitest.Pod("a").Kind, Namespace: "shop"}}}
	for right, want := range map[string]bool{"get pods in shop": true, "get pods in other": false} {
		perms := &Client{AccessReviewer: clitest.AllowedVerbs{right, "get teams in shop"}}
		if got := perms.State(t.Context(), care); strings.Contains(got.Error, "sesame") != want || got.Error == "" {
			t.Errorf("with %q: %q", right, got.Error)
		}
	}
}

func TestListNeedsAccess(t *testing.T) {
	both := []object.Kind{clitest.Team().Kind, clitest.Pod("").Kind}
	for _, test := range []struct {
		of        clitest.AllowedVerbs
		namespace string
		want      int
		missing   string
	}{
		{clitest.AllowedVerbs{"list teams in shop", "list pods in shop"}, "shop", 2, ""},
		{clitest.AllowedVerbs{"list teams in shop"}, "shop", 1, ""},
		{clitest.AllowedVerbs{"list teams in shop"}, "", 0, `cannot list resource "teams" in API group "example.com" at the cluster scope`},
		{clitest.AllowedVerbs{"get teams in shop"}, "shop", 0, `pods is forbidden: you cannot list resource "pods" in API group "" in the namespace "shop"`},
	} {
		got, err := (&Client{AccessReviewer: test.of}).Listable(t.Context(), both, test.namespace)
		if len(got) != test.want || (err != nil) != (test.missing != "") {
			t.Errorf("%v in %q: %v, %v", test.of, test.namespace, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), test.missing) {
			t.Errorf("%v: %v, want it to say %q", test.of, err, test.missing)
		}
	}
}

func TestPluralsAreFound(t *testing.T) {
	perms := &Client{AccessReviewer: clitest.AllowedVerbs{"get pods in shop"}}
	for kind, want := range map[string]bool{"Pod": true, "Other": false} {
		if got := perms.Can(t.Context(), "get", object.Kind{Version: "v1", Kind: kind}, "shop", ""); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

// The hint offers a flag to those commands only that have it.
func TestHintOfMissingController(t *testing.T) {
	clitest.UseCluster(t, http.NotFoundHandler())
	user := must.Get(ClusterFlags{}.Connect()).In(t)
	for otherwise, want := range map[string]string{
		"":                      "use one of the cluster, such as compositecontroller.setpoint.dev/NAME",
		", or -f FILE with one": "use one of the cluster, such as compositecontroller.setpoint.dev/NAME, or -f FILE with one",
	} {
		_, err := user.ControllerNamed(t.Context(), "gone", otherwise)
		if command.HintOf(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
