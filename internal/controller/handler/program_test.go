package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
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
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"on":false}}`)
		w := startEnv(s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDelete}, Expression: isOn}), s, nil)
		expect := func(step, finalizers string, failing, calls int) {
			t.Helper()
			pass(time.Minute)
			if got := finalizersOf(s); got != finalizers || w.Health().Failing != failing || len(w.callsOf("h", "")) != calls {
				t.Errorf("%s: finalizers %s, failing %d, calls %v, want %s, %d, %d", step, got, w.Health().Failing, w.callsOf("h", ""), finalizers, failing, calls)
			}
		}
		const held = "[setpoint.dev/test]"
		expect("false", "[]", 0, 0)
		s.expectWrites("PATCH", 0)
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
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"on":true}}`)
		w := startEnv(s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonDelete}, Expression: isOn}), s, nil)
		pass(time.Minute)
		s.edit(rates, "eur", `{"spec":{"on":false}}`)
		pass(time.Minute)
		expectFinalizers(t, s, "[]")
		s.drop(rates, "eur")
		pass(time.Minute)
		if calls := w.callsOf("h", ""); len(calls) > 0 || s.get(rates, "eur") != nil {
			t.Errorf("calls %v", calls)
		}
	})
}

// An expression over changes gets the object as the handler saw it last, and the reason.
func TestExpressionOfChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"on":false,"n":1}}`)
		changes := func(reason hook.Reason, old, now *object.Object) (bool, error) {
			if reason != hook.ReasonUpdate || old == nil {
				return false, errors.New("no such key: spec")
			}
			return !bytes.Equal(old.Field("spec", "on"), now.Field("spec", "on")), nil
		}
		w := startEnv(s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, Expression: changes}), s, nil)
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

// updateHandler returns a handler of updates of one field.
func updateHandler(do hook.Handler) trigger.Handler {
	return trigger.Handler{Name: "u", On: []hook.Reason{hook.ReasonUpdate}, Fields: [][]string{{"spec", "n"}}, Do: do}
}

// Edits within the debounce period make one call, and a reverted edit makes none.
func TestDebounce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		s.create(rates, "usd", `{"spec":{"n":1}}`)
		h := updateHandler(nil)
		h.Debounce = 10 * time.Second
		var calls []string
		w := startEnv(s, program(h), s, map[string]handlerFunc{"u": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			calls = append(calls, fmt.Sprint(n.Reason, " ", n.Name, " ", n.Changes))
			return &hook.HandlerResponse{}, nil
		}})
		pass(time.Second)
		s.edit(rates, "usd", `{"spec":{"n":2}}`)
		pass(time.Second)
		s.edit(rates, "usd", `{"spec":{"n":1}}`)
		for _, n := range []string{"2", "3", "4"} {
			pass(4 * time.Second)
			s.edit(rates, "eur", `{"spec":{"n":`+n+`}}`)
		}
		pass(9 * time.Second)
		w.expectCalls(t, "u", "", 0)
		pass(time.Minute)
		if want := []string{"Update eur [spec.n: 1 -> 4]"}; !slices.Equal(calls, want) {
			t.Errorf("called %q, want %q", calls, want)
		}
	})
}

// A handler that requested another call is called at once when the object changes, but not
// because of its own write.
func TestRetryAfterUpdate(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.respond("u", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if strings.Contains(string(n.Object), `"mended"`) {
			return &hook.HandlerResponse{}, nil
		}
		return &hook.HandlerResponse{Patch: []byte(`{"metadata":{"annotations":{"looked":"yes"}}}`), RetryAfter: time.Hour}, nil
	})
	st := e.start(t, s, program(updateHandler(e)))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	eventually(t, "first sight", func() bool { return stateIn(s.get(rates, "eur"))["u"].Digest != "" })
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "u update eur spec.n:1->2")
	s.edit(rates, "eur", `{"metadata":{"annotations":{"mended":"yes"}}}`)
	st.expectCalls(t, "u update eur spec.n:1->2", "u update eur spec.n:1->2")
	if under := stateIn(s.get(rates, "eur"))["u"].InProgress; under != "" {
		t.Errorf("still under way: %s", under)
	}
}

// A revert calls a handler with an update in progress, because it has done a part of the work.
// This survives a restart.
func TestRevertedUpdate(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("u", &hook.HandlerResponse{RetryAfter: time.Hour}, nil)
	st := e.start(t, s, program(updateHandler(e)))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	eventually(t, "first sight", func() bool { return stateIn(s.get(rates, "eur"))["u"].Digest != "" })
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	eventually(t, "under way", func() bool { return stateIn(s.get(rates, "eur"))["u"].InProgress != "" })
	st.stop()

	at := stateIn(s.get(rates, "eur"))["u"].InProgressSince
	since := make(chan time.Time, 1)
	e.respond("u", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		since <- n.Since
		return &hook.HandlerResponse{RetryAfter: time.Hour}, nil
	})
	st = e.start(t, s, program(updateHandler(e)))
	if got := <-since; got.Unix() != at {
		t.Errorf("since %s in the second process, and %s in the first", got, time.Unix(at, 0))
	}
	e.respond("u", nil)
	s.edit(rates, "eur", `{"spec":{"n":1}}`)
	eventually(t, "done", func() bool { return stateIn(s.get(rates, "eur"))["u"].InProgress == "" })
	st.expectCalls(t, "u update eur", "u update eur")
}

// Handlers list the kinds that the program declares, where it may.
func TestHandlersRead(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := program(trigger.Handler{Name: "c", On: []hook.Reason{hook.ReasonCreate}, Do: e})
	p.Reads = append(p.Reads, pods)
	p.Namespaces = []string{"town"}
	type result struct {
		of  string
		all hook.Group
		err error
	}
	results := make(chan result, 3)
	e.respond("c", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		for _, of := range []string{"Pod town", "Secret town", "Pod other"} {
			kind, namespace, _ := strings.Cut(of, " ")
			all, err := n.Reader.List(t.Context(), "v1", kind, namespace, "app=web")
			results <- result{of, all, err}
		}
		return &hook.HandlerResponse{}, nil
	})
	s.create(pods, "web", `{"metadata":{"labels":{"app":"web"}}}`)
	s.create(pods, "db", `{"metadata":{"labels":{"app":"db"}}}`)
	s.create(rates, "eur", `{}`)
	e.start(t, s, p)
	for _, want := range []string{"", "does not declare it", "limited to [town]"} {
		switch r := <-results; {
		case want != "" && (!hook.IsTerminal(r.err) || !strings.Contains(r.err.Error(), want)):
			t.Errorf("%s: got %v, want a terminal error about %q", r.of, r.err, want)
		case want == "" && (len(r.all.Objects) != 1 || r.all.Objects[0].Name != "web"):
			t.Errorf("%s: got %+v, %v", r.of, r.all, r.err)
		}
	}
}
