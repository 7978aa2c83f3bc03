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
)

// allowed are rights, such as "get teams in shop"; of all namespaces "list teams in ".
type allowed []string

func (a allowed) May(_ context.Context, verb string, kind inspect.Kind, namespace, _ string) (bool, error) {
	return slices.Contains(a, verb+" "+kind.Plural+" in "+namespace), nil
}

func (allowed) Kind(_ context.Context, name string) (inspect.Kind, error) {
	if name == "pod" {
		return pod("").Kind, nil
	}
	return inspect.Kind{}, inspect.ErrNotFound
}

func TestOnlyWhatTheUserMayReadIsShown(t *testing.T) {
	run := inspect.Run{Object: team(), Steps: []inspect.Step{{Ask: &inspect.Ask{What: "sync", Request: request("Pending")}}}}
	care := inspect.Care{Ref: team(), Family: []inspect.Child{{Ref: pod("a")}, {Ref: pod("b")}}}
	for _, test := range []struct {
		name         string
		of           allowed
		phase, owner bool
		family       int
	}{
		{"all", allowed{"get teams in shop", "get pods in shop"}, true, true, 2},
		{"no pods", allowed{"get teams in shop", "get pods in other"}, false, true, 0},
		{"nothing", nil, false, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			mine := &rights{asker: test.of}
			kept := runAccount{Run: run, before: map[uint64]inspect.Run{1: run}}
			shown := mine.account(t.Context(), kept)
			for _, each := range []inspect.Run{shown.Run, shown.before[1]} {
				text := string(each.Steps[0].Ask.Request)
				if strings.Contains(text, "Pending") != test.phase || strings.Contains(text, `"Team"`) != test.owner {
					t.Errorf("shown: %s", text)
				}
			}
			got := mine.care(t.Context(), care)
			if len(got.Family) != test.family || got.Hidden != 2-test.family {
				t.Errorf("%d children, %d hidden", len(got.Family), got.Hidden)
			}
		})
	}
}

func TestLastErrorIsForWhoMayReadWhatItIsAbout(t *testing.T) {
	declared := inspect.Ref{Kind: inspect.Kind{Plural: "compositecontrollers"}, Name: "teams"}
	said := inspect.Controller{
		Declared: &declared, Kinds: []inspect.Kind{team().Kind}, Last: &inspect.Failure{Message: "no"},
		Conditions: []inspect.Condition{{Type: "Ready", Reason: "HookFailing", Message: "no"}},
	}
	for right, want := range map[string][2]bool{
		"get compositecontrollers in ": {true, true}, "list teams in ": {true, true}, "list teams in shop": {}, "list pods in ": {},
	} {
		got, hidden := (&rights{asker: allowed{right}}).controllers(t.Context(), []inspect.Controller{said})
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
func TestRefusalsAreForWhoMayReadWhatIsWritten(t *testing.T) {
	care := inspect.Care{Ref: team(), Error: "it says open sesame", Among: []inspect.Place{{Kind: pod("a").Kind, Namespace: "shop"}}}
	for right, want := range map[string]bool{"get pods in shop": true, "get pods in other": false} {
		mine := &rights{asker: allowed{right, "get teams in shop"}}
		if got := mine.care(t.Context(), care); strings.Contains(got.Error, "sesame") != want || got.Error == "" {
			t.Errorf("with %q: %q", right, got.Error)
		}
	}
}

func TestListsTakeTheirRight(t *testing.T) {
	both := []inspect.Kind{team().Kind, pod("").Kind}
	for _, test := range []struct {
		of        allowed
		namespace string
		want      int
		lacking   string
	}{
		{allowed{"list teams in shop", "list pods in shop"}, "shop", 2, ""},
		{allowed{"list teams in shop"}, "shop", 1, ""},
		{allowed{"list teams in shop"}, "", 0, "list teams.example.com in all of the cluster"},
		{allowed{"get teams in shop"}, "shop", 0, "list teams.example.com in the namespace shop, or to list pods in the namespace shop"},
	} {
		got, err := (&rights{asker: test.of}).listable(t.Context(), both, test.namespace)
		if len(got) != test.want || (err != nil) != (test.lacking != "") {
			t.Errorf("%v in %q: %v, %v", test.of, test.namespace, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), test.lacking) {
			t.Errorf("%v: %v, want it to say %q", test.of, err, test.lacking)
		}
	}
}

func TestPluralsAreFound(t *testing.T) {
	mine := &rights{asker: allowed{"get pods in shop"}}
	for kind, want := range map[string]bool{"Pod": true, "Other": false} {
		if got := mine.may(t.Context(), "get", inspect.Kind{Version: "v1", Kind: kind}, "shop", ""); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

// crew is a process with some controllers.
type crew struct {
	*process
	all []inspect.Controller
}

func (c *crew) Controllers(context.Context) ([]inspect.Controller, error) { return c.all, nil }

// A controller of which the user may not know is not found by its name either.
func TestHiddenControllersAreNotFound(t *testing.T) {
	source := &crew{newProcess("a"), []inspect.Controller{
		{Name: "example/teams", Kinds: []inspect.Kind{team().Kind}}, {Name: "example/secrets", Kinds: []inspect.Kind{pod("").Kind}},
	}}
	for _, test := range []struct {
		of           allowed
		word, object string
		found        bool
		says         string
	}{
		{allowed{"list teams in "}, "teams", "", true, ""},
		{allowed{"list teams in shop"}, "teams", "", true, ""},
		{allowed{"get teams in shop"}, "teams", "red", true, ""},
		{allowed{"get teams in shop"}, "teams", "", false, "that you may see: there are none, and 2 that you may not see"},
		{allowed{"list teams in other"}, "teams", "red", false, "that you may see: there are none, and 2 that you may not see"},
		{allowed{"list teams in "}, "nonsense", "", false, "that you may see: there are example/teams, and 1 that you may not see"},
		{allowed{"list teams in ", "list pods in "}, "nonsense", "", false, `"nonsense": there are example/teams, example/secrets`},
	} {
		r := &reading{program: &program{stderr: io.Discard}, sources: []inspect.Source{source}, patience: inspect.NewPatience(time.Second), rights: &rights{asker: test.of}}
		r.found.Namespace = "shop"
		c, _, err := r.controller(t.Context(), test.word, test.object)
		said := ""
		if hint, is := errors.AsType[hinted](err); is {
			said = err.Error() + ": " + hint.hint
		}
		if (err == nil && c.Name == "example/teams") != test.found || !strings.Contains(said, test.says) || strings.Contains(said, "secrets") != (len(test.of) > 1) {
			t.Errorf("with %v, %q is %q: %s", test.of, test.word, c.Name, said)
		}
	}
}
