// Package hooktest is the conformance suite for ways of calling a hook.
//
// Run, RunDecorator, RunCustomizer and RunHandler test one transport end to end.
// HTTPHook, HTTPCustomizer and HTTPHandler serve a hook over HTTP for transports that
// need a server. The tests under internal/call use the package, and authors of other
// transports may.
package hooktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// Opener returns a hook that calls logic through the transport under test. It registers
// its cleanup with t.Cleanup.
type Opener func(t *testing.T, logic hook.Hook) hook.Hook

// Run runs the suite for composite hooks.
func Run(t *testing.T, open Opener) {
	finalizing := newRequest("tom")
	finalizing.Finalizing = true
	s := hookSuite{suite[hook.Request, hook.Response]{
		open: func(t *testing.T, logic call[hook.Request, hook.Response]) call[hook.Request, hook.Response] {
			return open(t, hook.Func(logic)).Call
		},
		newRequest: newRequest, requests: []*hook.Request{finalizing}, responses: responses(),
		echo: func(request *hook.Request) *hook.Response {
			return &hook.Response{Children: []json.RawMessage{child(parentName(request), "x")}}
		},
	}}
	s.run(t)
	runAll(t, []check{
		{"large response arrives complete", s.largeResponseArrives},
		{"caller owns the response", s.responseBelongsToCaller},
	})
}

// RunDecorator runs the suite for decorator hooks.
func RunDecorator(t *testing.T, open Opener) {
	Run(t, open)
	t.Run("labels and annotations arrive unchanged", func(t *testing.T) {
		value, empty := "ü \"1\"", ""
		want := hook.Response{
			Labels:      map[string]*string{"app": &empty, "example.com/old": nil},
			Annotations: map[string]*string{"example.com/note": &value, "gone": nil},
		}
		do := open(t, hook.Func(respondWith[hook.Request](want)))
		expectResponse(t, mustCall(t, do.Call, newRequest("tom")), &want)
	})
}

// newRequest returns a request for a namespaced parent with one child and related
// objects.
func newRequest(name string) *hook.Request {
	return &hook.Request{
		Controller: json.RawMessage(`{"apiVersion":"setpoint.dev/v1alpha1","kind":"CompositeController","metadata":{"name":"cats"}}`),
		Parent: fmt.Appendf(nil,
			`{"apiVersion":"example.com/v1","kind":"Cat","metadata":{"name":%q,"namespace":"home"},"spec":{"big":9007199254740993}}`, name),
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

func responses() map[string]hook.Response {
	return map[string]hook.Response{
		"nothing":      {},
		"empty status": {Status: json.RawMessage(`{}`)},
		"status":       {Status: json.RawMessage(`{"big":9007199254740993,"text":"\u2028 ü \"quoted\"","none":null}`)},
		"children in the hook's order": {Children: []json.RawMessage{
			child("b", "1"), child("a", "2"), child("c", "3"),
		}},
		"two children of one name": {Children: []json.RawMessage{child("a", "1"), child("a", "2")}},
		"resync":                   {ResyncAfter: 1500 * time.Millisecond},
		"finalized":                {Finalized: true},
		"message":                  {Message: "3 of 5 \"cats\" are home"},
		"events": {Events: []hook.Event{
			{Type: "Warning", Reason: "Hungry", Message: "no food"}, {Type: "Normal", Reason: "Fed"},
		}},
		"conditions": {Conditions: []hook.Condition{
			{Type: "Ready", Status: "False", Reason: "Hungry", Message: "no food"}, {Type: "Fed", Status: "Unknown", Reason: "Asleep"},
		}},
	}
}

// hookSuite adds what only hooks are tested for.
type hookSuite struct {
	suite[hook.Request, hook.Response]
}

func (s hookSuite) largeResponseArrives(t *testing.T) {
	want := hook.Response{Status: json.RawMessage(`{"ready":2000}`)}
	for i := range 2000 {
		want.Children = append(want.Children, child(fmt.Sprintf("cat-%d", i), strings.Repeat("miaow ", 200)))
	}
	expectResponse(t, mustCall(t, s.open(t, respondWith[hook.Request](want)), newRequest("tom")), &want)
}

func (s hookSuite) responseBelongsToCaller(t *testing.T) {
	want := hook.Response{Status: json.RawMessage(`{"ready":1}`), Children: []json.RawMessage{child("a", "1"), child("b", "2")}}
	do := s.open(t, func(context.Context, *hook.Request) (*hook.Response, error) {
		return &hook.Response{Status: bytes.Clone(want.Status), Children: []json.RawMessage{bytes.Clone(want.Children[0]),
			bytes.Clone(want.Children[1])}}, nil
	})
	first, second := mustCall(t, do, newRequest("tom")), mustCall(t, do, newRequest("tom"))
	first.Children[0] = append(first.Children[0], "scribble"...)
	for i := range first.Status {
		first.Status[i] = '#'
	}
	expectResponse(t, second, &want)
	expectResponse(t, &hook.Response{Status: want.Status, Children: first.Children[1:]},
		&hook.Response{Status: want.Status, Children: want.Children[1:]})
	expectResponse(t, mustCall(t, do, newRequest("tom")), &want)
}
