// Package hooktest is what every way of calling a hook has to pass.
//
// Here live the suites (Run, RunDecorator, RunCustomizer and RunHandler), one file
// for what they ask of answers, one for what they ask of calls, one for
// customizers, one for handlers, and hooks served over HTTP for the ways that need
// one (Handler, HTTPCustomizer and HTTPHandler). Nothing here is part of the
// product; the tests of the rooms under internal/call use it, and so may the
// author of a way of their own.
package hooktest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

// Opener makes a hook, called in the way under test, behind which logic
// answers. What it opens it closes with t.Cleanup.
type Opener func(t *testing.T, logic hook.Hook) hook.Hook

// Run runs the suite for the hooks of composites.
func Run(t *testing.T, open Opener) {
	runAll(t, open, []check[Opener]{
		{"question arrives unchanged", requestArrives},
		{"question is left alone", requestIsNotChanged},
		{"answers arrive unchanged", responsesArrive},
		{"large answer arrives whole", largeResponseArrives},
		{"answer belongs to the caller", responseBelongsToCaller},
		{"concurrent callers get their own answers", concurrentCallers},
		{"failure is an error that says why", failureIsError},
		{"failure does not outlast its call", failureDoesNotPersist},
		{"wish to retry later is kept", retryLater},
		{"malformed answer is told as such", malformedResponse},
		{"cancelled call returns", cancelledCall},
		{"call after cancellation returns", callAfterCancellation},
		{"deadline is kept", deadlineExceeded},
	})
}

// RunDecorator is Run for the hooks of decorators.
func RunDecorator(t *testing.T, open Opener) {
	Run(t, open)
	runAll(t, open, []check[Opener]{{"labels and annotations arrive unchanged", labelsArrive}})
}

// check is one thing asked of whatever an opener opens.
type check[O any] struct {
	name string
	test func(t *testing.T, open O)
}

func runAll[O any](t *testing.T, open O, checks []check[O]) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// newRequest is a request about a namespaced parent of that name, with one child
// and some objects related to it.
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

// child is a desired ConfigMap.
func child(name, value string) json.RawMessage {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"value":%q}}`, name, value)
}

// parentName is what a question is about.
func parentName(req *hook.Request) string {
	var parent struct{ Metadata struct{ Name string } }
	if err := json.Unmarshal(req.Parent, &parent); err != nil {
		return err.Error()
	}
	return parent.Metadata.Name
}
