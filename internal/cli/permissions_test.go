package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// allowedVerbs are rights, such as "get teams in shop"; of all namespaces "list teams in ".
type allowedVerbs []string

func (a allowedVerbs) CanI(_ context.Context, verb string, kind object.Kind, namespace, _ string) (bool, error) {
	if kind.Plural == "" {
		kind.Plural = strings.ToLower(kind.Kind) + "s"
	}
	return slices.Contains(a, verb+" "+kind.Plural+" in "+namespace), nil
}

func TestOnlyReadableIsShown(t *testing.T) {
	run := inspect.Run{Object: team(), Steps: []inspect.Step{{Call: &inspect.Call{Name: "sync", Request: request("Pending")}}}}
	care := inspect.ObjectState{Ref: team(), ChildStates: []inspect.Child{{Ref: pod("a")}, {Ref: pod("b")}}}
	for _, test := range []struct {
		name         string
		of           allowedVerbs
		phase, owner bool
		family       int
	}{
		{"all", allowedVerbs{"get teams in shop", "get pods in shop"}, true, true, 2},
		{"no pods", allowedVerbs{"get teams in shop", "get pods in other"}, false, true, 0},
		{"nothing", nil, false, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			perms := &permissions{accessReviewer: test.of}
			kept := runDetails{Run: run, before: map[uint64]inspect.Run{1: run}}
			shown := perms.redactRun(t.Context(), kept)
			for _, each := range []inspect.Run{shown.Run, shown.before[1]} {
				text := string(each.Steps[0].Call.Request)
				if strings.Contains(text, "Pending") != test.phase || strings.Contains(text, `"Team"`) != test.owner {
					t.Errorf("shown: %s", text)
				}
			}
			got := perms.state(t.Context(), care)
			if len(got.ChildStates) != test.family || got.Hidden != 2-test.family {
				t.Errorf("%d children, %d hidden", len(got.ChildStates), got.Hidden)
			}
		})
	}
}

func TestLastErrorNeedsAccess(t *testing.T) {
	declared := object.Ref{Kind: object.Kind{Plural: "compositecontrollers"}, Name: "teams"}
	said := inspect.Controller{
		Declared: &declared, Kinds: []object.Kind{team().Kind}, Last: &inspect.Failure{Message: "no"},
		Conditions: []inspect.Condition{{Type: "Ready", Reason: "HookFailing", Message: "no"}},
	}
	for right, want := range map[string][2]bool{
		"get compositecontrollers in ": {true, true}, "list teams in ": {true, true}, "list teams in shop": {}, "list pods in ": {},
	} {
		got, hidden := (&permissions{accessReviewer: allowedVerbs{right}}).controllers(t.Context(), []inspect.Controller{said})
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
	care := inspect.ObjectState{Ref: team(), Error: "it says open sesame", Mentions: []inspect.Location{{Kind: pod("a").Kind, Namespace: "shop"}}}
	for right, want := range map[string]bool{"get pods in shop": true, "get pods in other": false} {
		perms := &permissions{accessReviewer: allowedVerbs{right, "get teams in shop"}}
		if got := perms.state(t.Context(), care); strings.Contains(got.Error, "sesame") != want || got.Error == "" {
			t.Errorf("with %q: %q", right, got.Error)
		}
	}
}

func TestListNeedsAccess(t *testing.T) {
	both := []object.Kind{team().Kind, pod("").Kind}
	for _, test := range []struct {
		of        allowedVerbs
		namespace string
		want      int
		missing   string
	}{
		{allowedVerbs{"list teams in shop", "list pods in shop"}, "shop", 2, ""},
		{allowedVerbs{"list teams in shop"}, "shop", 1, ""},
		{allowedVerbs{"list teams in shop"}, "", 0, `cannot list resource "teams" in API group "example.com" at the cluster scope`},
		{allowedVerbs{"get teams in shop"}, "shop", 0, `pods is forbidden: you cannot list resource "pods" in API group "" in the namespace "shop"`},
	} {
		got, err := (&permissions{accessReviewer: test.of}).listable(t.Context(), both, test.namespace)
		if len(got) != test.want || (err != nil) != (test.missing != "") {
			t.Errorf("%v in %q: %v, %v", test.of, test.namespace, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), test.missing) {
			t.Errorf("%v: %v, want it to say %q", test.of, err, test.missing)
		}
	}
}

func TestPluralsAreFound(t *testing.T) {
	perms := &permissions{accessReviewer: allowedVerbs{"get pods in shop"}}
	for kind, want := range map[string]bool{"Pod": true, "Other": false} {
		if got := perms.can(t.Context(), "get", object.Kind{Version: "v1", Kind: kind}, "shop", ""); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

// controllerSource is a process with some controllers.
type controllerSource struct {
	*fakeProcess
	all []inspect.Controller
}

func (c *controllerSource) Controllers(context.Context) ([]inspect.Controller, error) {
	return c.all, nil
}

// A controller of which the user may not know is not found by its name either.
func TestHiddenControllersAreNotFound(t *testing.T) {
	source := &controllerSource{newFakeProcess("a"), []inspect.Controller{
		{Name: "example/teams", Kinds: []object.Kind{team().Kind}}, {Name: "example/secrets", Kinds: []object.Kind{pod("").Kind}},
	}}
	for _, test := range []struct {
		of           allowedVerbs
		word, object string
		found        bool
		says         string
	}{
		{allowedVerbs{"list teams in "}, "teams", "", true, ""},
		{allowedVerbs{"list teams in shop"}, "teams", "", true, ""},
		{allowedVerbs{"get teams in shop"}, "teams", "red", true, ""},
		{allowedVerbs{"get teams in shop"}, "teams", "", false, "that you can get: there are none, and 2 that you cannot get"},
		{allowedVerbs{"list teams in other"}, "teams", "red", false, "that you can get: there are none, and 2 that you cannot get"},
		{allowedVerbs{"list teams in "}, "nonsense", "", false, "that you can get: there are example/teams, and 1 that you cannot get"},
		{allowedVerbs{"list teams in ", "list pods in "}, "nonsense", "", false, `"nonsense": there are example/teams, example/secrets`},
	} {
		r := &session{program: &program{stderr: io.Discard}, sources: []inspect.Source{source}, timeouts: inspect.NewTimeouts(time.Minute), permissions: &permissions{accessReviewer: test.of}}
		r.target.Namespace = "shop"
		c, _, err := r.controller(t.Context(), test.word, test.object)
		said := ""
		if hint, is := errors.AsType[errorWithHint](err); is {
			said = err.Error() + ": " + hint.hint
		}
		if (err == nil && c.Name == "example/teams") != test.found || !strings.Contains(said, test.says) || strings.Contains(said, "secrets") != (len(test.of) > 1) {
			t.Errorf("with %v, %q is %q: %s", test.of, test.word, c.Name, said)
		}
	}
}
