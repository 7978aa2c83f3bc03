// Package hooktest is the conformance suite for ways of calling a hook.
//
// Run, RunDecorator, RunCustomizer and RunHandler test one transport end to end.
// HTTPHook, HTTPCustomizer and HTTPHandler serve a hook over HTTP for transports that
// need a server. The tests under internal/call use the package, and authors of other
// transports may.
package hooktest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

// Opener returns a hook that calls logic through the transport under test. It registers
// its cleanup with t.Cleanup.
type Opener func(t *testing.T, logic hook.Hook) hook.Hook

// Run runs the suite for composite hooks.
func Run(t *testing.T, open Opener) {
	runAll(t, open, []check[Opener]{
		{"request arrives unchanged", requestArrives},
		{"request is not modified", requestIsNotChanged},
		{"responses arrive unchanged", responsesArrive},
		{"large response arrives complete", largeResponseArrives},
		{"caller owns the response", responseBelongsToCaller},
		{"concurrent calls return their own responses", concurrentCallers},
		{"failure is an error that says why", failureIsError},
		{"failure does not persist", failureDoesNotPersist},
		{"RetryAfterError is preserved", retryLater},
		{"malformed response is a MalformedError", malformedResponse},
		{"cancelled call returns", cancelledCall},
		{"call after cancellation returns", callAfterCancellation},
		{"deadline is respected", deadlineExceeded},
	})
}

// RunDecorator runs the suite for decorator hooks.
func RunDecorator(t *testing.T, open Opener) {
	Run(t, open)
	runAll(t, open, []check[Opener]{{"labels and annotations arrive unchanged", labelsArrive}})
}

// check is one named test of a suite.
type check[O any] struct {
	name string
	test func(t *testing.T, open O)
}

func runAll[O any](t *testing.T, open O, checks []check[O]) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// newRequest returns a request for a namespaced parent with one child and related
// objects.
func newRequest(name string) *hook.Request {
	return &hook.Request{
		Controller:      json.RawMessage(`{"apiVersion":"setpoint.dev/v1alpha1","kind":"CompositeController","metadata":{"name":"cats"}}`),
		Parent:          fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Cat","metadata":{"name":%q,"namespace":"home"},"spec":{"big":9007199254740993}}`, name),
		ParentNamespace: "home",
		Children: []hook.Group{
			{APIVersion: "apps/v1", Kind: "Deployment"},
			{APIVersion: "v1", Kind: "Pod", Objects: []hook.Entry{{
				Namespace: "home", Name: "tail",
				Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"tail","namespace":"home"},"text":"\u003cü\u003e"}`),
			}}},
		},
		Related: []hook.Group{
			{APIVersion: "v1", Kind: "Namespace", Objects: []hook.Entry{{Name: "home", Object: json.RawMessage(`{"kind":"Namespace"}`)}}},
			{APIVersion: "v1", Kind: "Secret", Objects: []hook.Entry{
				{Namespace: "away", Name: "key", Object: json.RawMessage(`{"n":1}`)},
				{Namespace: "home", Name: "key", Object: json.RawMessage(`{"n":2}`)},
			}},
		},
	}
}

func child(name, value string) json.RawMessage {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"value":%q}}`, name, value)
}

func parentName(req *hook.Request) string {
	var parent struct{ Metadata struct{ Name string } }
	if err := json.Unmarshal(req.Parent, &parent); err != nil {
		return err.Error()
	}
	return parent.Metadata.Name
}
