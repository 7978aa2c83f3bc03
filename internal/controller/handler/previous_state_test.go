package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// withPreviousState returns a program with two handlers that keep the previous state, one of a
// field and one of all, and one that does not.
func withPreviousState(do hook.Handler) Program {
	on := []hook.Reason{hook.ReasonUpdate}
	return program(
		trigger.Handler{Name: "field", On: on, Fields: [][]string{{"spec", "n"}}, KeepPreviousState: true, Do: do},
		trigger.Handler{Name: "whole", On: on, KeepPreviousState: true, Do: do},
		trigger.Handler{Name: "without", On: on, Do: do},
	)
}

// states returns the states in the record of an object as JSON.
func (s *server) states(name string) []string {
	var all []string
	for _, state := range stateIn(s.get(rates, name)).States() {
		all = append(all, string(state))
	}
	slices.Sort(all)
	return all
}

// waitForEntries waits until the entries of handlers match, and the controller is idle.
func (s *testEnv) waitForEntries(t *testing.T, object string, says func(e lasthandled.Entry) bool, handlers ...string) {
	t.Helper()
	eventuallyOr(t, func() bool {
		r := stateIn(s.get(rates, object))
		return !slices.ContainsFunc(handlers, func(h string) bool { return !says(r[h]) })
	}, func() string {
		return fmt.Sprintf("recorded %+v, calls %q, events %q", stateIn(s.get(rates, object)), s.calledLines(), s.eventLines())
	})
	s.waitIdle(t)
}

func isHandled(e lasthandled.Entry) bool { return e.Digest != "" }

func expectStates(t *testing.T, s *server, name string, want ...string) {
	t.Helper()
	eventuallyOr(t, func() bool { return slices.Equal(s.states(name), want) }, func() string {
		return "kept\n" + strings.Join(s.states(name), "\n") + "\nwant\n" + strings.Join(want, "\n")
	})
}

// An update during a restart has the previous state, for handlers that keep it. Handlers share equal states.
func TestPreviousStateAfterRestart(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := withPreviousState(e)
	s.create(rates, "eur", `{"metadata":{"labels":{"l":"1"}},"spec":{"n":1,"x":1},"status":{"s":1}}`)
	s.create(rates, "usd", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	for _, name := range []string{"eur", "usd"} {
		st.waitForEntries(t, name, isHandled, "field", "whole")
	}
	expectStates(t, s, "eur", `{"metadata":{"labels":{"l":"1"}},"spec":{"n":1,"x":1}}`, `{"spec":{"n":1}}`)
	expectStates(t, s, "usd", `{"spec":{"n":1}}`)
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "field update eur spec.n:1->2", "whole update eur spec.n:1->2", "without update eur spec.n:1->2")
	expectStates(t, s, "eur", `{"metadata":{"labels":{"l":"1"}},"spec":{"n":2,"x":1}}`, `{"spec":{"n":2}}`)

	st.stop()
	s.edit(rates, "eur", `{"metadata":{"labels":{"l":"2"}},"spec":{"n":3}}`)
	olds := map[string]string{}
	for _, name := range []string{"field", "whole"} {
		e.respond(name, func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			olds[name] = string(n.PreviousState)
			return &hook.HandlerResponse{}, nil
		})
	}
	st = e.start(t, s, p)
	st.expectCalls(t, "field update eur spec.n:2->3", `whole update eur metadata.labels.l:"1"->"2" spec.n:2->3`, "without update eur")
	if want := `{"apiVersion":"example.org/v1","kind":"Rate","metadata":{"name":"eur","namespace":"town","uid":"uid-1"},"spec":{"n":2}}`; olds["field"] != want {
		t.Errorf("old is\n%s, want\n%s", olds["field"], want)
	}
	if want := `{"l":"1"}`; !strings.Contains(olds["whole"], want) || strings.Contains(olds["whole"], "status") {
		t.Errorf("old is %s", olds["whole"])
	}
	expectStates(t, s, "eur", `{"metadata":{"labels":{"l":"2"}},"spec":{"n":3,"x":1}}`, `{"spec":{"n":3}}`)
	s.edit(rates, "eur", `{"spec":{"n":4}}`)
	eventually(t, "called for another update", func() bool { return st.wasCalled("without update eur spec.n:3->4") })
}

// Handlers may have handled different states.
func TestPreviousStatePerHandler(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := withPreviousState(e)
	p.Handlers[0].Fields = nil // They watch the same.
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.waitForEntries(t, "eur", isHandled, "field", "whole")
	expectStates(t, s, "eur", `{"spec":{"n":1}}`)
	e.answer("field", nil, &hook.RetryAfterError{After: time.Hour, Err: errors.New("later")})
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	expectStates(t, s, "eur", `{"spec":{"n":1}}`, `{"spec":{"n":2}}`)
	st.waitIdle(t)
	st.stop()
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	e.respond("field", nil)
	st = e.start(t, s, p)
	st.expectCalls(t, "field update eur spec.n:1->3", "whole update eur spec.n:2->3", "without update eur")
	expectStates(t, s, "eur", `{"spec":{"n":3}}`)
}

// A process may end before the write of the record: the handler then sees the state that the record has.
func TestPreviousStateAfterCrash(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
	p := program(trigger.Handler{Name: "h", On: on, KeepPreviousState: true, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.expectCalls(t, "h create eur")
	expectStates(t, s, "eur", `{"spec":{"n":1}}`)
	s.setReject(rejects(http.StatusInternalServerError, func(_, path string, _ map[string]any) bool {
		return strings.Contains(path, "/rates/")
	}))
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	eventually(t, "tried", func() bool { return len(s.wrote("")) >= 3 })
	st.stop()
	s.setReject(nil)
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	st = e.start(t, s, p)
	st.expectCalls(t, "h update eur spec.n:1->3")
	expectStates(t, s, "eur", `{"spec":{"n":3}}`)
}

// A state that another client has changed, or that the record does not have, is unknown. An earlier build kept it in a
// ControllerRevision.
func TestPreviousStateUnknown(t *testing.T) {
	for name, edit := range map[string]func(r lasthandled.Record){
		"changed": func(r lasthandled.Record) {
			own := r[lasthandled.Object]
			own.States = lasthandled.JSON(fmt.Sprintf(`{%q:{"spec":{"n":9}}}`, r["h"].Digest))
			r[lasthandled.Object] = own
		},
		"no object": func(r lasthandled.Record) {
			own := r[lasthandled.Object]
			own.States = "[1]"
			r[lasthandled.Object] = own
		},
		"of an earlier build": func(r lasthandled.Record) {
			r[lasthandled.Object] = lasthandled.Entry{Digest: r[lasthandled.Object].Digest}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newFakeHandler()
			p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, KeepPreviousState: true, Do: e})
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			st := e.start(t, s, p)
			st.waitForEntries(t, "eur", isHandled, "h")
			st.stop()
			r := stateIn(s.get(rates, "eur"))
			edit(r)
			stored := strings.Replace(r.String(), `"h":{`, `"h":{"kept":true,`, 1)
			if r[lasthandled.Object].Version == 0 {
				stored = strings.ReplaceAll(stored, `"digest":`, `"seen":`)
			}
			s.edit(rates, "eur", text(map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{"setpoint.dev/handled-by-test": stored}}, "spec": map[string]any{"n": 2},
			}))
			st = e.start(t, s, p)
			st.expectCalls(t, "h update eur")
			s.edit(rates, "eur", `{"spec":{"n":3}}`)
			st.expectCalls(t, "h update eur", "h update eur spec.n:2->3")
			st.stop()
			s.edit(rates, "eur", `{"spec":{"n":4}}`)
			st = e.start(t, s, p)
			st.expectCalls(t, "h update eur spec.n:3->4")
			st.expectEvents(t)
		})
	}
}

// A handler that starts to keep its previous state has the earlier state stored, as far as it
// is known.
func TestKeepPreviousStateEnabledLater(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	s.create(rates, "usd", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	for _, name := range []string{"eur", "usd"} {
		st.waitForEntries(t, name, isHandled, "h")
	}
	expectStates(t, s, "eur")
	st.stop()
	s.edit(rates, "usd", `{"spec":{"n":2}}`)
	p.Handlers[0].KeepPreviousState = true
	st = e.start(t, s, p)
	st.expectCalls(t, "h update usd")
	expectStates(t, s, "eur", `{"spec":{"n":1}}`)
	expectStates(t, s, "usd", `{"spec":{"n":2}}`)
	st.expectEvents(t)
	st.stop()
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st = e.start(t, s, p)
	st.expectCalls(t, "h update eur spec.n:1->2")
}

// The handled state of a handler includes its own writes.
func TestPreviousStateHasOwnWrites(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"comment":"nice"}}`)}, nil)
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, KeepPreviousState: true, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.waitForEntries(t, "eur", isHandled, "h")
	expectStates(t, s, "eur", `{"spec":{"comment":"nice","n":1}}`)
	st.stop()
	s.edit(rates, "eur", `{"spec":{"comment":"bad"}}`)
	st = e.start(t, s, p)
	st.expectCalls(t, `h update eur spec.comment:"nice"->"bad"`)
}

// What another handler writes at the creation is an update from the state before it.
func TestPreviousStateBeforeAnotherHandler(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("create", &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"comment":"nice"}}`)}, nil)
	p := program(
		trigger.Handler{Name: "create", On: []hook.Reason{hook.ReasonCreate}, Do: e},
		trigger.Handler{Name: "update", On: []hook.Reason{hook.ReasonUpdate}, KeepPreviousState: true, Do: e},
	)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	st.expectCalls(t, "create create eur", `update update eur spec.comment:->"nice"`) //nolint:dupword // The handler has the name of its reason.
}

// A state that is too large for the record, or for the annotations of the object, is reported once and delays nothing.
func TestPreviousStateNotStored(t *testing.T) {
	for name, c := range map[string]struct {
		size, note int
		kept       bool
	}{
		"60 KB":                  {size: 60_000, kept: true},
		"too large":              {size: 64_000},
		"with other annotations": {size: 60_000, note: 110_000},
		"in a large object":      {size: 1_190_000},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newFakeHandler()
			on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
			p := program(
				trigger.Handler{Name: "h", On: on, Fields: [][]string{{"spec"}}, KeepPreviousState: true, Do: e},
				trigger.Handler{Name: "small", On: on, Fields: [][]string{{"spec", "m"}}, KeepPreviousState: true, Do: e},
			)
			s.create(rates, "eur", `{"metadata":{"annotations":{"note":"`+strings.Repeat("x", c.note)+`"}},"spec":{"n":1,"text":"`+
				strings.Repeat("x", c.size)+`"}}`)
			st := e.start(t, s, p)
			st.waitForEntries(t, "eur", isHandled, "h", "small")
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
			eventually(t, "called for the update", func() bool { return st.wasCalled("h update eur spec.n:1->2") })
			st.waitIdle(t)
			received := st.eventLines()
			if c.kept && len(received) > 0 || !c.kept && (len(received) != 1 || !strings.HasSuffix(received[0], "watch fewer fields in h")) {
				t.Errorf("got %q", received)
			}
			if want := map[bool]int{true: 2, false: 1}[c.kept]; len(s.states("eur")) != want {
				t.Errorf("%d states, want %d", len(s.states("eur")), want)
			}
			st.stop()
			s.edit(rates, "eur", `{"spec":{"n":3}}`)
			st = e.start(t, s, p)
			st.expectCalls(t, map[bool]string{true: "h update eur spec.n:2->3", false: "h update eur"}[c.kept])
		})
	}
}

// The states leave room for what a response writes, and for the end of the object.
func TestPreviousStateLeavesRoom(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	h := trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate, hook.ReasonDelete}, Fields: [][]string{{"spec"}}, KeepPreviousState: true, Do: e}
	s.create(rates, "eur", `{"spec":{"n":1,"text":"`+strings.Repeat("x", 60_000)+`"}}`)
	st := e.start(t, s, program(h))
	st.waitForEntries(t, "eur", isHandled, "h")
	if len(s.states("eur")) != 1 {
		t.Fatal("not kept")
	}
	s.setReject(rejects(http.StatusUnprocessableEntity, func(_, _ string, body map[string]any) bool { return len(text(body)) > 200_000 }))
	note := json.RawMessage(`{"metadata":{"annotations":{"note":"` + strings.Repeat("x", 150_000) + `"}}}`)
	e.answer("h", &hook.HandlerResponse{Patch: note}, nil)
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "h update eur spec.n:1->2")
	expectStates(t, s, "eur")
	st.waitIdle(t)
	e.answer("h", nil, nil)
	s.edit(rates, "eur", `{"metadata":{"annotations":{"note":null}},"spec":{"n":3}}`)
	eventually(t, "kept again", func() bool { return len(s.states("eur")) == 1 })
	st.waitIdle(t)
	e.answer("h", &hook.HandlerResponse{Patch: note}, nil)
	s.drop(rates, "eur")
	eventually(t, "gone", func() bool { return s.get(rates, "eur") == nil })
}

func TestValidateKeepPreviousState(t *testing.T) {
	if trigger.ValidateKeepPreviousState(object.GroupKind{Kind: "Secret"}) == nil || trigger.ValidateKeepPreviousState(object.GroupKind{Group: "example.org", Kind: "Secret"}) != nil {
		t.Error("the Secrets of the core alone are not to be kept")
	}
}
