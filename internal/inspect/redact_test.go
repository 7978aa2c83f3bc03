package inspect

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestRedact(t *testing.T) {
	run := Run{
		Object: object.Ref{Kind: object.Kind{Group: "example.org", Version: "v1", Plural: "rates", Kind: "Rate", Namespaced: true}, Namespace: "town", Name: "eur"},
		Error:  "it failed with spec.secret",
		Fault:  &Fault{Kind: failure.Invalid, Path: "spec.secret"},
		Steps: []Step{
			{Call: &Call{
				Name: "sync", Error: "no: because", Fault: &Fault{Body: "because"},
				Request: json.RawMessage(`{"parent":{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur","namespace":"town"},"spec":1},` +
					`"children":{"Pod.v1":{"town/p":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"town","labels":{"a":"b"}},"spec":{}}}}}`),
				Response: json.RawMessage(`{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{}},{"apiVersion":"v1","kind":"Node"}]}`),
			}},
			{Plan: &Planned{Unchanged: 1, Actions: []Action{
				{Verb: "update", Object: object.Ref{Kind: object.Kind{Version: "v1", Plural: "pods", Kind: "Pod"}, Namespace: "town", Name: "p"}, Reason: "spec differs", Changes: []Change{{Path: "spec"}}},
			}}},
			{Write: &Write{Verb: "update", Object: object.Ref{Kind: object.Kind{Group: "example.org", Kind: "Rate"}, Namespace: "town"}, Changes: []Change{{Path: "status"}}}},
			{Event: &Event{Reason: "R", Message: "m"}},
		},
	}
	kept := string(marshal(run))
	const pod = `{"apiVersion":"v1","hidden":"you cannot get these","kind":"Pod","metadata":{"name":"p"`
	for _, c := range []struct {
		name string
		may  func(object.Kind, string) bool
		want string
	}{
		{"all", func(object.Kind, string) bool { return true },
			`[{"request":{"children":{"Pod.v1":{"town/p":{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"},"name":"p","namespace":"town"},"spec":{}}}},` +
				`"parent":{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur","namespace":"town"},"spec":1}},` +
				`"reply":{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{}},{"apiVersion":"v1","kind":"Node"}]},"reason":"spec differs","changes":[{"path":"spec"}],"wrote":[{"path":"status"}],"event":"m","error":"it failed with spec.secret"}]`},
		{"no pods", func(k object.Kind, _ string) bool { return k.Kind != "Pod" },
			`[{"request":{"children":{"Pod.v1":{"town/p":` + pod + `,"namespace":"town"}}}},` +
				`"parent":{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur","namespace":"town"},"spec":1}},` +
				`"reply":{"children":[` + pod + `}},{"apiVersion":"v1","kind":"Node"}]},"reason":"you cannot get these","changes":null,"wrote":[{"path":"status"}],"event":"m","error":"it failed with spec.secret"}]`},
		{"no rates", func(k object.Kind, _ string) bool { return k.Kind != "Rate" },
			`[{"request":{"hidden":"you cannot get these"},"reply":{"hidden":"you cannot get these"},"reason":"spec differs","changes":[{"path":"spec"}],"wrote":null,"event":"you cannot get these","error":"you cannot get these"}]`},
		{"by the plural, in a namespace", func(k object.Kind, namespace string) bool {
			return k.Kind != "Pod" || k.Plural == "pods" && namespace != "town"
		}, `[{"request":{"children":{"Pod.v1":{"town/p":` + pod + `,"namespace":"town"}}}},` +
			`"parent":{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur","namespace":"town"},"spec":1}},` +
			`"reply":{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{}},{"apiVersion":"v1","kind":"Node"}]},"reason":"you cannot get these","changes":null,"wrote":[{"path":"status"}],"event":"m","error":"it failed with spec.secret"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Redact(run, c.may)
			type shown struct {
				Request json.RawMessage `json:"request"`
				Reply   json.RawMessage `json:"reply"`
				Reason  string          `json:"reason"`
				Changes []Change        `json:"changes"`
				Wrote   []Change        `json:"wrote"`
				Event   string          `json:"event"`
				Error   string          `json:"error"`
			}
			action := got.Steps[1].Plan.Actions[0]
			text := string(marshal([]shown{{
				got.Steps[0].Call.Request, got.Steps[0].Call.Response, action.Reason, action.Changes, got.Steps[2].Write.Changes, got.Steps[3].Event.Message, got.Error,
			}}))
			if hidden := got.Error == redacted; hidden != (got.Fault == nil) || hidden != (got.Steps[0].Call.Fault == nil) {
				t.Errorf("a hidden error is shown: %+v, %+v", got.Fault, got.Steps[0].Call.Fault)
			}
			if text != c.want {
				t.Errorf("got  %s\nwant %s", text, c.want)
			}
			if string(marshal(run)) != kept {
				t.Error("the run itself was changed")
			}
		})
	}
}

// An object in a response may omit its namespace: it defaults to that of the run if its
// kind is known to be namespaced.
func TestRedactWithoutNamespace(t *testing.T) {
	run := Run{
		Object: object.Ref{Kind: object.Kind{Kind: "Rate"}, Namespace: "town"},
		Steps:  []Step{{Write: &Write{Object: object.Ref{Kind: object.Kind{Version: "v1", Kind: "Pod", Namespaced: true}, Namespace: "town"}}}, {Call: &Call{Response: json.RawMessage(`{"children":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}]}`)}}},
	}
	var called []string
	Redact(run, func(k object.Kind, namespace string) bool {
		called = append(called, k.Kind+" in "+namespace)
		return true
	})
	if called = slices.Compact(called); len(called) != 2 || called[1] != "Pod in town" {
		t.Errorf("called %q", called)
	}
}

// What the API server says of a write can quote the object: it is for who may read that,
// wherever the run tells it.
func TestRedactWriteErrors(t *testing.T) {
	const refusal = `Pod "p" is invalid: spec.containers[0].image: Invalid value: "hidden"`
	run := Run{
		Object: object.Ref{Kind: object.Kind{Group: "example.org", Version: "v1", Kind: "Rate", Namespaced: true}, Namespace: "town", Name: "eur"},
		Causes: []string{"child Pod town/p changed"},
		Error:  "apply Pod town/p: " + refusal,
		Steps: []Step{
			{Write: &Write{Object: object.Ref{Kind: object.Kind{Version: "v1", Kind: "Pod"}, Namespace: "town", Name: "p"}, Error: refusal, Fault: &Fault{Kind: failure.Invalid, Path: "spec.secret"}}},
			{Event: &Event{Message: "failed: " + refusal[:len(refusal)-10] + "…"}},
			{Event: &Event{Message: "another"}},
		},
	}
	for _, c := range []struct {
		name                               string
		hidden                             string
		cause, err, write, retold, another string
	}{
		{"all may be read", "", run.Causes[0], run.Error, refusal, run.Steps[1].Event.Message, "another"},
		{"not what was written", "Pod", run.Causes[0], redacted, redacted, redacted, "another"},
		{"not the object", "Rate", redacted, redacted, redacted, redacted, redacted},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Redact(run, func(k object.Kind, _ string) bool { return k.Kind != c.hidden })
			said := [...]string{got.Causes[0], got.Error, got.Steps[0].Write.Error, got.Steps[1].Event.Message, got.Steps[2].Event.Message}
			if want := [...]string{c.cause, c.err, c.write, c.retold, c.another}; said != want {
				t.Errorf("got  %q\nwant %q", said, want)
			}
			if w := got.Steps[0].Write; (w.Error == redacted) != (w.Fault == nil) {
				t.Errorf("a hidden write error is shown: %+v", w.Fault)
			}
			if run.Steps[0].Write.Error != refusal {
				t.Error("the run itself was changed")
			}
		})
	}
}

// The text of code is for readers who may get the object that has it.
func TestRedactCode(t *testing.T) {
	code := &Code{Digest: "a", Source: "x", Holder: object.ConfigMaps.Ref("town", "code")}
	run := Run{Steps: []Step{{Call: &Call{Code: code}}}}
	for _, may := range []bool{true, false} {
		got := Redact(run, func(kind object.Kind, namespace string) bool {
			return kind.Plural != "configmaps" || may && namespace == "town"
		})
		if shown := got.Steps[0].Call.Code; (shown.Source == "x") != may || shown.Digest != "a" || code.Source != "x" {
			t.Errorf("%+v", shown)
		}
	}
}
