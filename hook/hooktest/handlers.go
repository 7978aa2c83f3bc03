package hooktest

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// HandlerOpener is an Opener for handlers.
type HandlerOpener func(t *testing.T, logic hook.Handler) hook.Handler

// RunHandler runs the handler suite.
func RunHandler(t *testing.T, open HandlerOpener) {
	s := suite[hook.HandlerRequest, hook.HandlerResponse]{
		open: func(t *testing.T, logic call[hook.HandlerRequest, hook.HandlerResponse]) call[hook.HandlerRequest, hook.HandlerResponse] {
			return open(t, hook.HandlerFunc(logic)).Handle
		},
		newRequest: newHandlerRequest,
		requests: []*hook.HandlerRequest{{Handler: "feed", Reason: hook.ReasonCreate, Controller: newRequest("tom").Controller,
			Object: json.RawMessage(`{}`)}},
		responses: handlerResponses(),
		echo: func(request *hook.HandlerRequest) *hook.HandlerResponse {
			return &hook.HandlerResponse{Message: request.Name}
		},
	}
	s.run(t)
	t.Run("TerminalError is preserved", func(t *testing.T) {
		if err := s.failure(t, &hook.TerminalError{Err: errors.New("a dog")}); !hook.IsTerminal(err) || err.Error() != "a dog" {
			t.Errorf("no TerminalError: %v", err)
		}
	})
}

func newHandlerRequest(name string) *hook.HandlerRequest {
	q := newRequest(name)
	return &hook.HandlerRequest{
		Controller:    q.Controller,
		Handler:       "feed",
		Reason:        hook.ReasonUpdate,
		Object:        q.Parent,
		Namespace:     q.ParentNamespace,
		Name:          name,
		PreviousState: json.RawMessage(`{"spec":{"big":1,"text":"\u003cü\u003e"}}`),
		Changes: []hook.FieldChange{
			{Path: "spec.big", From: json.RawMessage(`1`), To: json.RawMessage(`9007199254740993`)},
			{Path: `metadata.annotations["a.b/c"]`, From: json.RawMessage(`{"x":[null]}`), To: json.RawMessage(`"\u2028"`)},
		},
		Owned:   q.Children,
		Attempt: 2,
		Deleted: true,
		DryRun:  true,
	}
}

func handlerResponses() map[string]hook.HandlerResponse {
	return map[string]hook.HandlerResponse{
		"nothing": {},
		"patch":   {Patch: json.RawMessage(`{"spec":{"big":9007199254740993,"none":null},"metadata":{"labels":{"a":null}}}`)},
		"status":  {Status: json.RawMessage(`{"text":"\u2028 ü \"quoted\"","none":null}`)},
		"apply":   {Apply: []hook.AppliedObject{{Object: child("b", "1")}, {Object: child("a", "2"), Unowned: true}}},
		"delete": {Delete: []hook.Deletion{
			{APIVersion: "v1", Kind: "Pod", Name: "a", Evict: true}, {APIVersion: "apps/v1", Kind: "Deployment", Namespace: "b",
				Selector: "app in (x,y)"},
		}},
		"events and conditions": {
			Message:    "3 of 5 \"cats\" are home",
			Events:     []hook.Event{{Type: "Warning", Reason: "Hungry", Message: "no food"}},
			Conditions: []hook.Condition{{Type: "Ready", Status: "False", Reason: "Hungry", Message: "no food"}},
		},
		"not done yet": {RetryAfter: 1500 * time.Millisecond},
	}
}
