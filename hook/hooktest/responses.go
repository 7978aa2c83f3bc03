package hooktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

func requestArrives(t *testing.T, open Opener) {
	want := newRequest("tom")
	want.Finalizing = true
	var got *hook.Request
	h := open(t, hook.Func(func(_ context.Context, req *hook.Request) (*hook.Response, error) {
		got = req
		return &hook.Response{}, nil
	}))
	mustCall(t, h, want)
	if diff := diffText(got, want); diff != "" {
		t.Errorf("request differs: %s", diff)
	}
}

func requestIsNotChanged(t *testing.T, open Opener) {
	h := open(t, respondWith(hook.Response{}))
	req := newRequest("tom")
	mustCall(t, h, req)
	if !reflect.DeepEqual(req, newRequest("tom")) {
		t.Error("the call modified the request")
	}
}

func responsesArrive(t *testing.T, open Opener) {
	for name, want := range map[string]hook.Response{
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
	} {
		t.Run(name, func(t *testing.T) {
			got := mustCall(t, open(t, respondWith(want)), newRequest("tom"))
			expectResponse(t, got, &want)
		})
	}
}

func labelsArrive(t *testing.T, open Opener) {
	value, empty := "ü \"1\"", ""
	want := hook.Response{
		Labels:      map[string]*string{"app": &empty, "example.com/old": nil},
		Annotations: map[string]*string{"example.com/note": &value, "gone": nil},
	}
	expectResponse(t, mustCall(t, open(t, respondWith(want)), newRequest("tom")), &want)
}

func largeResponseArrives(t *testing.T, open Opener) {
	want := hook.Response{Status: json.RawMessage(`{"ready":2000}`)}
	for i := range 2000 {
		want.Children = append(want.Children, child(fmt.Sprintf("cat-%d", i), strings.Repeat("miaow ", 200)))
	}
	expectResponse(t, mustCall(t, open(t, respondWith(want)), newRequest("tom")), &want)
}

func responseBelongsToCaller(t *testing.T, open Opener) {
	want := hook.Response{Status: json.RawMessage(`{"ready":1}`), Children: []json.RawMessage{child("a", "1"), child("b", "2")}}
	h := open(t, respondWith(want))
	first := mustCall(t, h, newRequest("tom"))
	second := mustCall(t, h, newRequest("tom"))
	first.Children[0] = append(first.Children[0], "scribble"...)
	for i := range first.Status {
		first.Status[i] = '#'
	}
	expectResponse(t, second, &want)
	expectResponse(t, &hook.Response{Status: want.Status, Children: first.Children[1:]},
		&hook.Response{Status: want.Status, Children: want.Children[1:]})
	expectResponse(t, mustCall(t, h, newRequest("tom")), &want)
}

// respondWith returns a hook with a fixed response, copied for every call.
func respondWith(r hook.Response) hook.Hook {
	return hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) {
		own := r
		own.Status = bytes.Clone(r.Status)
		own.Children = nil
		for _, c := range r.Children {
			own.Children = append(own.Children, bytes.Clone(c))
		}
		return &own, nil
	})
}

func mustCall(t *testing.T, h hook.Hook, req *hook.Request) *hook.Response {
	t.Helper()
	resp, err := h.Call(t.Context(), req)
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	if resp == nil {
		t.Fatal("neither a response nor an error")
	}
	return resp
}

func expectResponse(t *testing.T, got, want *hook.Response) {
	t.Helper()
	if diff := diffText(got, want); diff != "" {
		t.Errorf("response differs: %s", diff)
	}
}

// diffText compares two values as JSON text, ignoring insignificant white space and
// treating nil children as empty. It returns an excerpt around the first difference, or
// "".
func diffText(got, want any) string {
	a, b := comparableText(got), comparableText(want)
	if a == b {
		return ""
	}
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	from := max(0, at-40)
	return fmt.Sprintf("got …%.120s, want …%.120s", a[from:], b[from:])
}

func comparableText(v any) string {
	switch v := v.(type) {
	case *hook.Response:
		own := *v
		own.Children = append([]json.RawMessage{}, v.Children...)
		return marshal(own)
	default:
		return marshal(v)
	}
}

func marshal(v any) string {
	// Marshal compacts and validates a RawMessage.
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
