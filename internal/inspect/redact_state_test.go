package inspect

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// testDeniedState is an object of which a write to a Secret was refused.
func testDeniedState() record.ObjectState {
	return record.ObjectState{
		Failing: true, Attempts: 2, Error: `create Secret a/s: admission webhook "w" denied the request: too weak`,
		Locations: []record.Location{{Resource: secrets, Namespace: "a"}},
		Fault:     &failure.Fault{Kind: failure.Invalid, Path: "data[b3Bl]"},
	}
}

func TestRedactState(t *testing.T) {
	one := testObject(t, "a", "eur", testDeniedState())
	one.Conflict = "Secret a/s: data.x differs"
	words := one.View()
	all := RedactState(words, func(object.Kind, string) bool { return true })
	if all.Error != words.Error || all.Fault != words.Fault || words.Fault == nil || all.Conflict != words.Conflict {
		t.Errorf("got %q, %q", all.Error, all.Conflict)
	}
	none := RedactState(words, func(k object.Kind, namespace string) bool { return k.Plural != "secrets" || namespace != "a" })
	if want := "hidden, because it may quote objects that you cannot get: Secret"; none.Error != want || none.Fault != nil || none.Conflict != want {
		t.Errorf("got %q, %q", none.Error, none.Conflict)
	}
	well := testObject(t, "a", "eur", record.ObjectState{Locations: one.Locations})
	if got := RedactState(well.View(), func(object.Kind, string) bool { return false }); got.Error+got.Conflict != "" {
		t.Errorf("of one that is well: %q, %q", got.Error, got.Conflict)
	}
	// Who has the object may read what is said of it alone.
	own := testObject(t, "a", "eur", record.ObjectState{Failing: true, Error: "no", Locations: []record.Location{{Resource: rates, Namespace: "a"}}})
	if got := RedactState(own.View(), func(object.Kind, string) bool { return false }); got.Error != "no" {
		t.Errorf("of itself: %q", got.Error)
	}
}

// Who looks for a part of an error finds it where they may read all of it.
func TestFilterOnlyByReadable(t *testing.T) {
	all := []ManagedObject{testObject(t, "a", "eur", testDeniedState())}
	for _, c := range []struct {
		name string
		q    Query
		want int
	}{
		{"nothing is known", Query{Text: "webhook"}, 0},
		{"it may be read", Query{Text: "webhook", ReadableKinds: []object.Kind{object.KindOf(secrets)}}, 1},
		{"in that namespace", Query{Text: "webhook", Namespace: "a", ReadableKinds: []object.Kind{object.KindOf(secrets)}}, 1},
		{"another may be read", Query{Text: "webhook", ReadableKinds: []object.Kind{object.KindOf(rates)}}, 0},
		{"by the name", Query{Text: "eur"}, 1},
	} {
		if got := NewPage(all, c.q).Matching; got != c.want {
			t.Errorf("%s: %d", c.name, got)
		}
	}
	all[0].Locations[0].Namespace = "b"
	if NewPage(all, Query{Text: "webhook", Namespace: "a", ReadableKinds: []object.Kind{object.KindOf(secrets)}}).Matching != 0 {
		t.Error("the rights in one namespace say nothing of another")
	}
}

func TestRedactController(t *testing.T) {
	declared := object.Ref{Kind: object.Kind{Plural: "compositecontrollers"}, Name: "rates"}
	c := Controller{
		Kinds: []object.Kind{object.KindOf(rates)}, Children: []object.Kind{object.KindOf(secrets)}, Last: &Failure{Message: "no", Object: "a/eur", Time: noon},
		Conditions: []Condition{{Type: "Ready", Status: "False", Reason: "HookFailing", Message: "no"}, {Type: "Accepted"}}, Notes: []string{"no"},
	}
	for _, test := range []struct {
		name         string
		declared     *object.Ref
		may          string
		sees, writes bool
	}{
		{"its declaration", &declared, "get compositecontrollers", true, true},
		{"what it handles", &declared, "list rates", true, false},
		{"all it handles and writes", nil, "list rates, list secrets", true, true},
		{"what it handles, of a program", nil, "list rates", true, false},
		{"what it writes", nil, "list secrets", false, false},
		{"nothing", &declared, "", false, false},
	} {
		c.Declared = test.declared
		may := func(verb string, kind object.Kind, _, _ string) bool {
			return strings.Contains(test.may, verb+" "+kind.Plural)
		}
		got := RedactController(c, may)
		text := string(marshal(got))
		if CanView(&c, may) != test.sees || strings.Contains(text, `"no"`) != test.writes || strings.Contains(text, "eur") != test.writes {
			t.Errorf("%s: sees %t: %s", test.name, CanView(&c, may), text)
		}
		if got.Last == nil || got.Last.Message == "" || got.Ready().Message == "" || got.Ready().Reason != "HookFailing" || got.Conditions[1].Message != "" || len(got.Notes) != 1 {
			t.Errorf("%s: it is not said that something is left out: %s", test.name, text)
		}
	}
	if c.Last.Message != "no" || c.Conditions[0].Message != "no" || c.Notes[0] != "no" {
		t.Error("the controller itself was changed")
	}
	idle := Controller{Last: &Failure{Message: "no"}}
	all := func(_ string, kind object.Kind, _, _ string) bool { return kind.Group == "*" && kind.Plural == "*" }
	if RedactController(idle, all).Last.Message != "no" || RedactController(idle, func(_ string, kind object.Kind, _, _ string) bool { return kind.Plural != "*" }).Last.Message == "no" {
		t.Error("the errors of one without kinds are not for those who may list every kind, and for no others")
	}
	if anonymous := func(string, object.Kind, string, string) bool { return false }; !CanView(&Controller{}, anonymous) {
		t.Error("there is nothing to hide of one without kinds")
	}
	if got := Readable(c.Children, "a", func(_ object.Kind, namespace string) bool { return namespace == "a" }); len(got) != 1 {
		t.Errorf("readable are %v", got)
	}
}
