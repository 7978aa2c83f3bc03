package handler

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// isOn is an expression over spec.on: it is an error if that is not set.
func isOn(_ hook.Reason, _, now *object.Object) (bool, error) {
	switch string(now.Field("spec", "on")) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("when: no such key: on")
}

// An expression selects objects. While it fails, the handler is not called, the object is failing, and its
// finalizer stays as it is.
func TestExpression(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		s.create(rates, "eur", `{"spec":{"on":false}}`)
		w := startEnv(s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDelete}, Expression: isOn}), s, nil)
		defer w.stop()
		expect := func(step, finalizers string, failing, calls int) {
			t.Helper()
			pass(time.Minute)
			if got := finalizersOf(s); got != finalizers || w.Health().Failing != failing || len(w.callsOf("h", "")) != calls {
				t.Errorf("%s: finalizers %s, failing %d, calls %v, want %s, %d, %d", step, got, w.Health().Failing, w.callsOf("h", ""), finalizers, failing, calls)
			}
		}
		const held = "[setpoint.dev/test]"
		expect("false", "[]", 0, 0)
		if wrote := s.wrote("PATCH"); len(wrote) > 0 {
			t.Errorf("an object that is not handled is written: %q", wrote)
		}
		s.edit(rates, "eur", `{"spec":{"on":null,"n":1}}`)
		expect("unknown", "[]", 1, 0)
		s.edit(rates, "eur", `{"spec":{"on":true}}`)
		expect("true", held, 0, 1)
		s.edit(rates, "eur", `{"spec":{"on":null,"n":2}}`)
		expect("unknown again", held, 1, 1)
		s.drop(rates, "eur")
		expect("deleted, unknown", held, 1, 1)
		s.edit(rates, "eur", `{"spec":{"on":true}}`)
		pass(time.Minute)
		if got := w.callsOf("h", ""); s.get(rates, "eur") != nil || len(got) != 2 {
			t.Errorf("not released after %v", got)
		}
		if lines := w.eventLines(); !slices.ContainsFunc(lines, func(line string) bool {
			return strings.Contains(line, "ExpressionFailed") && strings.Contains(line, "handler h: when: no such key: on")
		}) {
			t.Errorf("events %q", lines)
		}
	})
}

// A deleted object for which the expression is false goes without a call.
func TestExpressionOfDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		s.create(rates, "eur", `{"spec":{"on":true}}`)
		w := startEnv(s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonDelete}, Expression: isOn}), s, nil)
		defer w.stop()
		pass(time.Minute)
		s.edit(rates, "eur", `{"spec":{"on":false}}`)
		pass(time.Minute)
		if got := finalizersOf(s); got != "[]" {
			t.Errorf("finalizers %s", got)
		}
		s.drop(rates, "eur")
		pass(time.Minute)
		if calls := w.callsOf("h", ""); len(calls) > 0 || s.get(rates, "eur") != nil {
			t.Errorf("calls %v", calls)
		}
	})
}

// An expression over changes gets the object as the handler saw it last, and the reason.
func TestExpressionOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		s.create(rates, "eur", `{"spec":{"on":false,"n":1}}`)
		changes := func(reason hook.Reason, old, now *object.Object) (bool, error) {
			if reason != hook.ReasonUpdate || old == nil {
				return false, errors.New("no such key: spec")
			}
			return !bytes.Equal(old.Field("spec", "on"), now.Field("spec", "on")), nil
		}
		w := startEnv(s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, Expression: changes}), s, nil)
		defer w.stop()
		pass(time.Minute)
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		pass(time.Minute)
		s.edit(rates, "eur", `{"spec":{"on":true}}`)
		pass(time.Minute)
		s.edit(rates, "eur", `{"spec":{"n":3}}`)
		pass(time.Minute)
		s.edit(rates, "eur", `{"spec":{"on":false}}`)
		pass(time.Minute)
		if calls := w.callsOf("h", ""); len(calls) != 2 || w.Health().Failing > 0 {
			t.Errorf("calls %v, events %q", calls, w.eventLines())
		}
	})
}
