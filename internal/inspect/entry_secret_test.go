package inspect

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/trace"
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
func TestTheBookHoldsNoSecrets(t *testing.T) {
	const value, changed = "cGFzc3dvcmQtb25l", "cGFzc3dvcmQtdHdv"
	secret := func(value string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"town"},"data":{"k":"` + value + `"}}`
	}
	before, after := parsed(t, secret(value)), parsed(t, secret(changed))
	groups := []hook.Group{{APIVersion: "v1", Kind: "Secret", Objects: []hook.Entry{{Namespace: "town", Name: "s", Object: json.RawMessage(secret(value))}}}}
	refusal := errors.New(`Secret "s" is invalid: data[k]: Invalid value: "` + value + `"`)
	ask := func(q trace.Question, a trace.Answer) trace.Run {
		run := ranAt("a", "eur", 10)
		run.Steps = []trace.Step{{Ask: &trace.Ask{What: "sync", Question: q, Answer: a}}}
		return run
	}
	parent := json.RawMessage(`{"apiVersion":"example.org/v1","kind":"Rate"}`)
	for name, run := range map[string]trace.Run{
		"a child":   ask(trace.Question{Sync: &hook.Request{Parent: parent, Children: groups}}, trace.Answer{Sync: &hook.Response{}}),
		"a related": ask(trace.Question{Sync: &hook.Request{Parent: parent, Related: groups}}, trace.Answer{Sync: &hook.Response{}}),
		"a parent":  ask(trace.Question{Customize: &hook.CustomizeRequest{Parent: json.RawMessage(secret(value))}}, trace.Answer{}),
		"desired":   ask(trace.Question{Sync: &hook.Request{Parent: parent}}, trace.Answer{Sync: &hook.Response{Children: []json.RawMessage{json.RawMessage(secret(value))}}}),
		"owned":     ask(trace.Question{Notice: &hook.Notice{Object: parent, Owned: groups}}, trace.Answer{Notice: &hook.Answer{}}),
		"applied":   ask(trace.Question{Notice: &hook.Notice{Object: parent}}, trace.Answer{Notice: &hook.Answer{Apply: []hook.Applied{{Object: json.RawMessage(secret(value))}}}}),
		"reviewed":  ask(trace.Question{Review: &hook.Review{Object: json.RawMessage(secret(value))}}, trace.Answer{Review: &hook.Verdict{Object: json.RawMessage(secret(value))}}),
		"planned": {Program: "a", Resource: rates, Steps: []trace.Step{
			{Plan: &trace.Planned{Stages: [][]plan.Action{{{Verb: plan.Update, Resource: secrets, Ref: after.Ref(), Before: before, After: after}}}}},
		}},
		"written": {Program: "a", Resource: rates, Steps: []trace.Step{
			{Write: &trace.Write{Verb: plan.Apply, Resource: secrets, Ref: after.Ref(), Before: before, After: after}},
		}},
		"refused": {Program: "a", Resource: rates, Outcome: trace.Failed, Err: refusal, Steps: []trace.Step{
			{Write: &trace.Write{Resource: secrets, Ref: after.Ref(), Err: refusal}}, {Event: &hook.Event{Message: refusal.Error()}},
		}},
		"a patch": {Program: "a", Resource: secrets, Steps: []trace.Step{
			{Ask: &trace.Ask{What: "h", Question: trace.Question{Notice: &hook.Notice{Object: parent}}, Answer: trace.Answer{Notice: &hook.Answer{Patch: json.RawMessage(`{"data":{"k":"` + value + `"}}`)}}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := wordsOf(&entry{run: run}, true)
			b := NewBook(BookOptions{}, noon)
			b.Note(run)
			for _, text := range []string{value, changed} {
				if holds(reflect.ValueOf(b), text, map[uintptr]bool{}) {
					t.Errorf("the history holds %q", text)
				}
			}
			got, err := b.Run(b.last)
			if err != nil {
				t.Fatal(err)
			}
			want.ID = got.ID
			if string(textOf(got)) != string(textOf(want)) {
				t.Errorf("it tells %s\nnot      %s", textOf(got), textOf(want))
			}
			listed := b.Runs(got.Object, 0)
			brief := wordsOf(&entry{run: ranAs(run), id: got.ID}, false)
			if len(listed) != 1 || len(listed[0].Steps) != len(brief.Steps) || strings.Contains(string(textOf(listed)), "••••••") && listed[0].Error == "" {
				t.Errorf("a list has %s", textOf(listed))
			}
		})
	}
}

// ranAs is a run without its errors.
func ranAs(run trace.Run) trace.Run { run.Err = nil; return run }

// What is kept of Secrets is counted, and goes first where there is too much, as of others.
func TestWordsOfSecretsAreDropped(t *testing.T) {
	b := NewBook(BookOptions{MaxBytes: 40_000}, noon)
	var ids []uint64
	for range 8 {
		run := ranAt("a", "eur", 8000)
		run.Steps[0].Ask.Answer = trace.Answer{Sync: &hook.Response{Children: []json.RawMessage{json.RawMessage(`{"apiVersion":"v1","kind":"Secret"}`)}}}
		b.Note(run)
		ids = append(ids, b.last)
	}
	first, err := b.Run(ids[0])
	if err != nil {
		t.Fatal(err)
	}
	if ask := first.Steps[0].Ask; !ask.Dropped || ask.Request != nil || ask.Reply != nil {
		t.Errorf("the first is kept as %s", textOf(ask))
	}
	last, err := b.Run(ids[7])
	if err != nil {
		t.Fatal(err)
	}
	if ask := last.Steps[0].Ask; ask.Dropped || !strings.Contains(string(ask.Request), "xxxx") || ask.Previous != ids[6] {
		t.Errorf("the last is kept as %.200s", textOf(ask))
	}
	if stats := b.Stats(); stats.Bytes > 40_000 || stats.Bytes < 8000 {
		t.Errorf("it takes %+v", stats)
	}
}
