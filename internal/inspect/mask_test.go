package inspect

import (
	"encoding/json"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func parsed(t *testing.T, text string) *object.Object {
	t.Helper()
	o, err := object.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Changes of a Secret show only the names of its keys.
func TestChangesOfSecrets(t *testing.T) {
	before := parsed(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","labels":{"a":"b"}},"data":{"old":"c2VjcmV0"}}`)
	after := parsed(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","labels":{"a":"c"}},"data":{"old":"b3RoZXI=","new":"bW9yZQ=="}}`)
	run := record.Run{Controller: "a", Resource: rates, Steps: []record.Step{
		{Plan: &record.Planned{Stages: [][]plan.Action{{{Verb: plan.Update, Resource: secrets, Ref: after.Ref(), Before: before, After: after, Reason: "data.old differs"}}}}},
		{Write: &record.Write{Verb: plan.Apply, Resource: secrets, Ref: after.Ref(), Before: before, After: after}},
	}}
	words := renderRun(&run, true)
	const want = `[{"path":"data.new","to":"***"},{"path":"data.old","from":"*** (before)","to":"*** (after)"},{"path":"metadata.labels.a","from":"b","to":"c"}]`
	if got := string(marshal(words.Steps[0].Plan.Actions[0].Changes)); got != want {
		t.Errorf("planned %s\nwant    %s", got, want)
	}
	if got := string(marshal(words.Steps[1].Write.Changes)); got != want {
		t.Errorf("wrote %s\nwant  %s", got, want)
	}
	if brief := renderRun(&run, false); brief.Steps[0].Plan.Actions[0].Changes != nil || brief.Steps[1].Write.Changes != nil {
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
