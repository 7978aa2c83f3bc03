package inspect

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
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
			{Plan: &record.Planned{Unchanged: 1, Actions: []Action{
				{Verb: "update", Object: object.Ref{Kind: object.Kind{Version: "v1", Plural: "pods", Kind: "Pod"}, Namespace: "town", Name: "p"}, Reason: "spec differs", Changes: []Change{{Path: "spec"}}},
			}}},
			{Write: &Write{Verb: "update", Object: object.Ref{Kind: object.Kind{Group: "example.org", Kind: "Rate"}, Namespace: "town"}, Changes: []Change{{Path: "status"}}}},
			{Event: &hook.Event{Reason: "R", Message: "m"}},
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
			if hidden := got.Error == Redacted; hidden != (got.Fault == nil) || hidden != (got.Steps[0].Call.Fault == nil) {
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
			{Event: &hook.Event{Message: "failed: " + refusal[:len(refusal)-10] + "…"}},
			{Event: &hook.Event{Message: "another"}},
		},
	}
	for _, c := range []struct {
		name                               string
		hidden                             string
		cause, err, write, retold, another string
	}{
		{"all may be read", "", run.Causes[0], run.Error, refusal, run.Steps[1].Event.Message, "another"},
		{"not what was written", "Pod", run.Causes[0], Redacted, Redacted, Redacted, "another"},
		{"not the object", "Rate", Redacted, Redacted, Redacted, Redacted, Redacted},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Redact(run, func(k object.Kind, _ string) bool { return k.Kind != c.hidden })
			said := [...]string{got.Causes[0], got.Error, got.Steps[0].Write.Error, got.Steps[1].Event.Message, got.Steps[2].Event.Message}
			if want := [...]string{c.cause, c.err, c.write, c.retold, c.another}; said != want {
				t.Errorf("got  %q\nwant %q", said, want)
			}
			if w := got.Steps[0].Write; (w.Error == Redacted) != (w.Fault == nil) {
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

// testDeniedState is an object of which a write to a Secret was refused.
func testDeniedState() record.ObjectState {
	return record.ObjectState{
		Failing: true, Attempts: 2, Error: `create Secret a/s: admission webhook "w" denied the request: too weak`,
		Locations: []record.Location{{Kind: object.KindOf(secrets), Namespace: "a"}},
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
	own := testObject(t, "a", "eur", record.ObjectState{Failing: true, Error: "no", Locations: []record.Location{{Kind: object.KindOf(rates), Namespace: "a"}}})
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

func parsed(t testing.TB, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}

// Changes of a Secret show only the names of its keys.
func TestChangesOfSecrets(t *testing.T) {
	before := parsed(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","labels":{"a":"b"}},"data":{"old":"c2VjcmV0"}}`)
	after := parsed(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","labels":{"a":"c"}},"data":{"old":"b3RoZXI=","new":"bW9yZQ=="}}`)
	run := record.Run{Controller: "a", Object: rates.Ref("", ""), Steps: []record.Step{
		{Plan: &record.Planned{Stages: [][]plan.Action{{{Verb: plan.Update, Resource: secrets, Ref: after.Ref(), Before: before, After: after, Reason: "data.old differs"}}}}},
		{Write: &record.Write{Verb: string(plan.Apply), Object: secrets.Ref(after.Namespace(), after.Name()), Before: before, After: after}},
	}}
	words := run.Render(true)
	const want = `[{"path":"data.new","to":"***"},{"path":"data.old","from":"*** (before)","to":"*** (after)"},{"path":"metadata.labels.a","from":"b","to":"c"}]`
	if got := string(marshal(words.Steps[0].Plan.Actions[0].Changes)); got != want {
		t.Errorf("planned %s\nwant    %s", got, want)
	}
	if got := string(marshal(words.Steps[1].Write.Changes)); got != want {
		t.Errorf("wrote %s\nwant  %s", got, want)
	}
	if brief := run.Render(false); brief.Steps[0].Plan.Actions[0].Changes != nil || brief.Steps[1].Write.Changes != nil {
		t.Error("a list has changes")
	}
}

func TestRequestsAndResponses(t *testing.T) {
	label := "x"
	for _, c := range []struct {
		name     string
		question record.Request
		response record.Response
		request  string
		reply    string
	}{
		{"nothing", record.Request{}, record.Response{}, ``, ``},
		{"sync",
			record.Request{Sync: &hook.Request{Parent: json.RawMessage(`{"a":1}`), Children: []hook.Group{{APIVersion: "v1", Kind: "Pod"}}}},
			record.Response{Sync: &hook.Response{Children: []json.RawMessage{json.RawMessage(`{"b":2}`)}, Status: json.RawMessage(`{}`), ResyncAfter: 1500e6, Events: []hook.Event{{Type: "Normal", Reason: "R", Message: "m"}}}},
			`{"controller":null,"parent":{"a":1},"children":{"Pod.v1":{}},"related":{},"finalizing":false}`,
			`{"status":{},"children":[{"b":2}],"events":[{"type":"Normal","reason":"R","message":"m"}],"resyncAfterSeconds":1.5}`},
		{"a decorator's",
			record.Request{ControllerType: hook.Decorator, Sync: &hook.Request{Parent: json.RawMessage(`{}`), Finalizing: true}},
			record.Response{Sync: &hook.Response{Children: []json.RawMessage{json.RawMessage(`{}`)}, Finalized: true, Labels: map[string]*string{"a": &label, "b": nil}}},
			`{"controller":null,"object":{},"attachments":{},"related":{},"finalizing":true}`,
			`{"finalized":true,"labels":{"a":"x","b":null},"attachments":[{}]}`},
		{"customize",
			record.Request{Customize: &hook.CustomizeRequest{Parent: json.RawMessage(`{}`)}},
			record.Response{Customize: &hook.CustomizeResponse{Related: []hook.RelatedRule{{APIVersion: "v1", Resource: "pods", Names: []string{"a"}}}}},
			`{"controller":null,"parent":{}}`, `{"relatedResources":[{"apiVersion":"v1","resource":"pods","names":["a"]}]}`},
		{"a verdict", record.Request{}, record.Response{Review: &hook.ReviewResponse{Denial: &hook.Denial{Message: "no", Code: 422}, Warnings: []string{"w"}}},
			``, `{"allowed":false,"message":"no","code":422,"warnings":["w"]}`},
		{"an answer", record.Request{}, record.Response{Handler: &hook.HandlerResponse{
			Patch: json.RawMessage(`{"spec":1}`), Apply: []hook.AppliedObject{{Object: json.RawMessage(`{"a":1}`)}, {Object: json.RawMessage(`{}`), Unowned: true}},
			Delete: []hook.Deletion{{APIVersion: "v1", Kind: "Pod", Name: "p", Evict: true}}, RetryAfter: 60e9,
		}}, ``, `{"patch":{"spec":1},"delete":[{"apiVersion":"v1","kind":"Pod","name":"p","evict":true}],"apply":[{"a":1},{"object":{},"unowned":true}],"retryAfterSeconds":60}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(c.question.JSON()); got != c.request {
				t.Errorf("asked %s\nwant  %s", got, c.request)
			}
			if got := string(c.response.JSON(c.question.ControllerType)); got != c.reply {
				t.Errorf("answered %s\nwant     %s", got, c.reply)
			}
		})
	}
}
