package inspect

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// holds looks for a text in all that a value leads to.
func holds(value reflect.Value, text string, seen map[uintptr]bool) bool {
	switch value.Kind() {
	case reflect.String:
		return strings.Contains(value.String(), text)
	case reflect.Pointer:
		if value.IsNil() || seen[value.Pointer()] {
			return false
		}
		seen[value.Pointer()] = true
		return holds(value.Elem(), text, seen)
	case reflect.Interface:
		return !value.IsNil() && holds(value.Elem(), text, seen)
	case reflect.Struct:
		for _, field := range value.Fields() {
			if holds(field, text, seen) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if value.Type().Elem().Kind() == reflect.Uint8 && value.Kind() == reflect.Slice {
			return strings.Contains(string(value.Bytes()), text)
		}
		for i := range value.Len() {
			if holds(value.Index(i), text, seen) {
				return true
			}
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			if holds(entries.Key(), text, seen) || holds(entries.Value(), text, seen) {
				return true
			}
		}
	}
	return false
}

// Fault S10: the history held Secrets as they are, and masked them when it was read. It
// masks them when it records.
func TestHistoryHoldsNoSecrets(t *testing.T) {
	const value, changed = "cGFzc3dvcmQtb25l", "cGFzc3dvcmQtdHdv"
	secret := func(value string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"town"},"data":{"k":"` + value + `"}}`
	}
	before, after := parsed(t, secret(value)), parsed(t, secret(changed))
	groups := []hook.Group{{APIVersion: "v1", Kind: "Secret", Objects: []hook.Entry{{Namespace: "town", Name: "s", Object: json.RawMessage(secret(value))}}}}
	refusal := errors.New(`Secret "s" is invalid: data[k]: Invalid value: "` + value + `"`)
	call := func(q record.Request, a record.Response) record.Run {
		run := testRun("a", "eur", 10)
		run.Steps = []record.Step{{Call: &record.Call{Name: "sync", Sent: q, Received: a}}}
		return run
	}
	parent := json.RawMessage(`{"apiVersion":"example.org/v1","kind":"Rate"}`)
	for name, run := range map[string]record.Run{
		"a child":   call(record.Request{Sync: &hook.Request{Parent: parent, Children: groups}}, record.Response{Sync: &hook.Response{}}),
		"a related": call(record.Request{Sync: &hook.Request{Parent: parent, Related: groups}}, record.Response{Sync: &hook.Response{}}),
		"a parent":  call(record.Request{Customize: &hook.CustomizeRequest{Parent: json.RawMessage(secret(value))}}, record.Response{}),
		"desired":   call(record.Request{Sync: &hook.Request{Parent: parent}}, record.Response{Sync: &hook.Response{Children: []json.RawMessage{json.RawMessage(secret(value))}}}),
		"owned":     call(record.Request{Handler: &hook.HandlerRequest{Object: parent, Owned: groups}}, record.Response{Handler: &hook.HandlerResponse{}}),
		"applied":   call(record.Request{Handler: &hook.HandlerRequest{Object: parent}}, record.Response{Handler: &hook.HandlerResponse{Apply: []hook.AppliedObject{{Object: json.RawMessage(secret(value))}}}}),
		"reviewed":  call(record.Request{Review: &hook.ReviewRequest{Object: json.RawMessage(secret(value))}}, record.Response{Review: &hook.ReviewResponse{Object: json.RawMessage(secret(value))}}),
		"planned": {Controller: "a", Object: rates.Ref("", ""), Steps: []record.Step{
			{Plan: &record.Planned{Stages: [][]plan.Action{{{Verb: plan.Update, Resource: secrets, Ref: after.Ref(), Before: before, After: after}}}}},
		}},
		"written": {Controller: "a", Object: rates.Ref("", ""), Steps: []record.Step{
			{Write: &record.Write{Verb: string(plan.Apply), Object: secrets.Ref(after.Namespace(), after.Name()), Before: before, After: after}},
		}},
		"refused": {Controller: "a", Object: rates.Ref("", ""), Outcome: record.Failed, Err: refusal, Steps: []record.Step{
			{Plan: &record.Planned{Stages: [][]plan.Action{{{Verb: plan.Create, Resource: secrets, Ref: before.Ref(), After: before}}}}},
			{Write: &record.Write{Object: secrets.Ref(after.Namespace(), after.Name()), Err: refusal}}, {Event: &hook.Event{Message: refusal.Error()}},
		}},
		"read by a handler": func() record.Run {
			run := call(record.Request{Handler: &hook.HandlerRequest{Object: parent}}, record.Response{Handler: &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"copy":"` + value + `"}}`)}})
			run.Secrets = redact.In(json.RawMessage(secret(value)))
			return run
		}(),
		"a patch": {Controller: "a", Object: secrets.Ref("", ""), Steps: []record.Step{
			{Call: &record.Call{Name: "h", Sent: record.Request{Handler: &hook.HandlerRequest{Object: parent}}, Received: record.Response{Handler: &hook.HandlerResponse{Patch: json.RawMessage(`{"data":{"k":"` + value + `"}}`)}}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := hideTokens(run.Masked(redact.NewKey()))
			hideOutput(&want)
			b := NewHistory(HistoryOptions{}, noon)
			b.Add(run)
			for _, text := range []string{value, changed} {
				if holds(reflect.ValueOf(b), text, map[uintptr]bool{}) {
					t.Errorf("the history holds %q", text)
				}
			}
			got := must.Get(b.Run(b.last)).In(t)
			want.ID = got.ID
			if string(marshal(got)) != string(marshal(want)) {
				t.Errorf("it tells %s\nnot      %s", marshal(got), marshal(want))
			}
			listed := b.Runs(got.Object, 0)
			run.Err = nil
			brief := run.Render(false)
			if len(listed) != 1 || len(listed[0].Steps) != len(brief.Steps) || strings.Contains(string(marshal(listed)), "••••••") && listed[0].Error == "" {
				t.Errorf("a list has %s", marshal(listed))
			}
		})
	}
}

// A text of a run that is a part of its object would keep the object.
func TestHistoryHoldsNoPartsOfSecrets(t *testing.T) {
	text := strings.Clone(`{"apiVersion":"v1","kind":"Secret","data":{"k":"cGFzc3dvcmQtb25l"},"metadata":{"uid":"f2a1"}}`)
	run := testRun("a", "eur", 10)
	run.Object.UID = text[len(text)-len(`f2a1"}}`):][:4]
	run.Steps = []record.Step{{Call: &record.Call{Name: "customize", Sent: record.Request{Customize: &hook.CustomizeRequest{Parent: json.RawMessage(text)}}}}}
	if kept := newEntry(&run, redact.NewKey()).run.Object.UID; kept != "f2a1" || unsafe.StringData(kept) == unsafe.StringData(run.Object.UID) {
		t.Errorf("%q is a part of the object", kept)
	}
}

// What is kept of Secrets is counted, and goes first where there is too much, as of others.
func TestRenderedSecretRunsAreDropped(t *testing.T) {
	b := NewHistory(HistoryOptions{MaxBytes: 40_000}, noon)
	var ids []uint64
	for range 8 {
		run := testRun("a", "eur", 8000)
		run.Steps[0].Call.Received = record.Response{Sync: &hook.Response{Children: []json.RawMessage{json.RawMessage(`{"apiVersion":"v1","kind":"Secret"}`)}}}
		b.Add(run)
		ids = append(ids, b.last)
	}
	first := must.Get(b.Run(ids[0])).In(t)
	if call := first.Steps[0].Call; !call.Dropped || call.Request != nil || call.Response != nil {
		t.Errorf("the first is kept as %s", marshal(call))
	}
	last := must.Get(b.Run(ids[7])).In(t)
	if call := last.Steps[0].Call; call.Dropped || !strings.Contains(string(call.Request), "xxxx") || call.Previous != ids[6] {
		t.Errorf("the last is kept as %.200s", marshal(call))
	}
	if stats := b.Stats(); stats.Bytes > 40_000 || stats.Bytes < 8000 {
		t.Errorf("it takes %+v", stats)
	}
}
