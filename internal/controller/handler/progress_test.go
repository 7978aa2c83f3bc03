package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// callLog has a line for each call.
type callLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *callLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// take returns the calls since the last time.
func (l *callLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

func (l *callLog) expect(t *testing.T, want ...string) {
	t.Helper()
	if lines := l.take(); !slices.Equal(lines, want) {
		t.Errorf("called %q, want %q", lines, want)
	}
}

// stepHandler takes three steps, one each call, by its progress.
type stepHandler struct {
	callLog
	// fails makes it return an error beside the progress; patch is what it changes.
	fails bool
	patch string
}

func (h *stepHandler) handle(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf("%s %s %d", n.Reason, strings.Replace(string(n.Progress), `,"text":"\u003cü\u0026\u003e"`, "", 1), n.Attempt))
	var done struct{ Steps int }
	_ = json.Unmarshal(n.Progress, &done)
	if done.Steps == 2 {
		return &hook.HandlerResponse{}, nil
	}
	r := &hook.HandlerResponse{Progress: fmt.Appendf(nil, `{"steps":%d,"text":"<ü&>"}`, done.Steps+1)}
	if h.patch != "" {
		r.Patch = json.RawMessage(h.patch)
	}
	if h.fails {
		r.Err = errors.New("not yet")
	} else {
		r.RetryAfter = time.Minute
	}
	return r, nil
}

// Progress is stored with the record, survives a restart and edits, and goes when the call is
// complete; an update with the edits follows. It works with the record in the status too.
func TestProgress(t *testing.T) {
	for _, location := range []string{"annotation", "status"} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, fails %v", location, fails), func(t *testing.T) {
				t.Setenv(stateLocationVariable, location)
				inBubble(t, func(t *testing.T, s *server) { testProgress(t, s, &stepHandler{fails: fails}) })
			})
		}
	}
}

func testProgress(t *testing.T, s *server, h *stepHandler) {
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Backoff: time.Minute, MaxBackoff: time.Minute})
	do := map[string]handlerFunc{"h": h.handle}
	attempt := 0
	if h.fails {
		attempt = 1
	}
	w := startEnv(s, p, s, do)
	pass(time.Second)
	h.expect(t, "Create  0")
	if e := stateIn(s.get(rates, "eur"))["h"]; !strings.HasPrefix(string(e.Progress), `{"steps":1,`) || e.Digest != "" {
		t.Errorf("recorded %+v", e)
	}
	w.stop()
	writes := len(s.wrote("PATCH"))
	w = startEnv(s, p, s, do)
	pass(time.Second)
	h.expect(t, `Create {"steps":1} 0`)
	for range 3 {
		w.Queue.Add(queue.Key{Namespace: "town", Name: "eur"}, queue.Cause{Kind: queue.RequeueAfter})
		pass(time.Second)
	}
	if n := len(s.wrote("PATCH")) - writes; n != 1 {
		t.Errorf("%d writes of one progress", n)
	}
	pass(2 * time.Minute)
	h.expect(t, fmt.Sprintf(`Create {"steps":2} %d`, attempt))
	if e := stateIn(s.get(rates, "eur"))["h"]; e.Progress != "" || e.ProgressInput != "" || e.Digest == "" {
		t.Errorf("recorded %+v", e)
	}
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	pass(time.Second)
	s.edit(rates, "eur", `{"status":{"n":2}}`) // Not watched.
	pass(90 * time.Second)
	h.expect(t, "Update  0", fmt.Sprintf(`Update {"steps":1} %d`, attempt))
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	pass(time.Second)
	h.expect(t, fmt.Sprintf(`Update {"steps":2} %d`, 2*attempt), "Update  0")
	s.edit(rates, "eur", `{"spec":{"n":1}}`)
	pass(time.Second)
	s.drop(rates, "eur")
	pass(time.Hour)
	s.expectGone("eur")
}

// What a handler changes in the object itself is no other input: progress and backoff stay.
func TestProgressWithOwnChanges(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, h := newBubbleServer(t), &stepHandler{fails: fails, patch: `{"spec":{"seen":true}}`}
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDelete}, Backoff: time.Minute, MaxBackoff: time.Minute})
			startEnv(s, p, s, map[string]handlerFunc{"h": h.handle})
			attempt := func(n int) int {
				if fails {
					return n
				}
				return 0
			}
			pass(time.Second)
			h.expect(t, "Create  0")
			pass(4 * time.Minute)
			h.expect(t, fmt.Sprintf(`Create {"steps":1} %d`, attempt(1)), fmt.Sprintf(`Create {"steps":2} %d`, attempt(2)))
			h.mu.Lock()
			h.patch = `{"spec":{"seen":null}}`
			h.mu.Unlock()
			s.drop(rates, "eur")
			pass(time.Second)
			h.expect(t, "Delete  0")
			pass(4 * time.Minute)
			h.expect(t, fmt.Sprintf(`Delete {"steps":1} %d`, attempt(1)), fmt.Sprintf(`Delete {"steps":2} %d`, attempt(2)))
			s.expectGone("eur")
		})
	}
}

// An error beside writes: they land, and the call counts as failed.
func TestErrorBesideWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"n":1},"status":{"conditions":[]}}`)
		var response atomic.Pointer[hook.HandlerResponse]
		response.Store(&hook.HandlerResponse{
			Patch: json.RawMessage(`{"spec":{"seen":true}}`), Status: json.RawMessage(`{"phase":"waiting"}`), Message: "waits",
			Events: []hook.Event{{Type: "Normal", Reason: "Waits", Message: "for the bank"}}, Err: errors.New("the bank is closed"),
		})
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Retries: 1, Backoff: time.Minute, MaxBackoff: time.Minute})
		w := startEnv(s, p, s, map[string]handlerFunc{"h": func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			return response.Load(), nil
		}})
		pass(time.Second)
		o := s.get(rates, "eur")
		if text(field(o, "spec")) != `{"n":1,"seen":true}` || field(o, "status", "phase") != "waiting" || field(o, "status", "message") != "waits" ||
			!strings.Contains(conditionsOf(o), `handler h: the bank is closed`) || stateIn(o)["h"].Attempts != 1 {
			t.Errorf("stored %s", text(o))
		}
		if got := w.eventLines(); !slices.Contains(got, "eur Waits for the bank") || !slices.Contains(got, "eur HandlerFailed handler h: the bank is closed") {
			t.Errorf("events %q", got)
		}
		w.expectCalls(t, "h", "", 1)
		pass(2 * time.Minute)
		o = s.get(rates, "eur")
		if e := stateIn(o)["h"]; !e.Failed || len(w.callsOf("h", "")) != 2 || !strings.Contains(conditionsOf(o), trigger.ReasonGaveUp) {
			t.Errorf("recorded %+v in %s after %v", e, text(o), w.callsOf("h", ""))
		}
		pass(time.Hour)
		w.expectCalls(t, "h", "", 2)
		response.Store(&hook.HandlerResponse{Status: json.RawMessage(`{"phase":"failed"}`), Patch: json.RawMessage(`{"spec":{"seen":null}}`), Err: &hook.TerminalError{Err: errors.New("no such bank")}})
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		pass(time.Hour)
		o = s.get(rates, "eur")
		if e := stateIn(o)["h"]; !e.Failed || field(o, "status", "phase") != "failed" || len(w.callsOf("h", "")) != 3 {
			t.Errorf("recorded %+v in %s after %v", e, text(o), w.callsOf("h", ""))
		}
		response.Store(&hook.HandlerResponse{Err: &hook.RetryAfterError{After: 10 * time.Second, Err: errors.New("soon")}, Message: "soon"})
		s.edit(rates, "eur", `{"spec":{"n":3}}`)
		pass(5 * time.Second)
		response.Store(&hook.HandlerResponse{})
		pass(10 * time.Second)
		if e := stateIn(s.get(rates, "eur"))["h"]; e.Failed || e.Attempts != 0 || len(w.callsOf("h", "")) != 5 {
			t.Errorf("recorded %+v after %v", e, w.callsOf("h", ""))
		}
	})
}

// A refused write beside an error is retried without another call, and the error of the handler
// is reported again once the write has landed.
func TestRefusedWriteBesideError(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"n":1},"status":{"conditions":[]}}`)
		var refusing atomic.Bool
		refusing.Store(true)
		s.reject = rejects(http.StatusUnprocessableEntity, func(_, _ string, body map[string]any) bool {
			return refusing.Load() && field(body, "spec", "seen") != nil
		})
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Backoff: time.Hour, MaxBackoff: time.Hour})
		response := &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"seen":true}}`), Err: errors.New("closed")}
		w := startEnv(s, p, s, map[string]handlerFunc{"h": answers(response, nil)})
		pass(time.Minute)
		if got := w.callsOf("h", ""); len(got) != 1 || !strings.Contains(conditionsOf(s.get(rates, "eur")), controller.ReasonWriteFailed) {
			t.Errorf("called %v, stored %s", got, text(s.get(rates, "eur")))
		}
		refusing.Store(false)
		pass(10 * time.Minute)
		if got := w.callsOf("h", ""); len(got) != 1 || field(s.get(rates, "eur"), "spec", "seen") != true || !strings.Contains(conditionsOf(s.get(rates, "eur")), "handler h: closed") {
			t.Errorf("called %v, stored %s", got, text(s.get(rates, "eur")))
		}
	})
}

// editedHandler has two steps: one succeeds in its first call, the other fails until told otherwise.
type editedHandler struct {
	callLog
	// second is the end of the second step; patch is what the first one changes.
	second error
	patch  string
}

func (h *editedHandler) handle(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := intIn(object.DecodeOrEmpty(n.Object), "spec", "n")
	line := fmt.Sprintf("%s %d", n.Reason, now)
	if n.PreviousState != nil {
		line = fmt.Sprintf("%s %d->%d", n.Reason, intIn(object.DecodeOrEmpty(n.PreviousState), "spec", "n"), now)
	}
	r := &hook.HandlerResponse{Err: h.second}
	if n.Progress == nil {
		line += " first"
		r.Progress, r.RetryAfter = json.RawMessage(`{"done":["first"]}`), time.Millisecond
		if r.Err != nil {
			r.RetryAfter = 0
		}
		if h.patch != "" {
			r.Patch = json.RawMessage(h.patch)
		}
	}
	if n.Attempt > 0 {
		line += fmt.Sprintf(" attempt %d since %s", n.Attempt, time.Since(n.FirstAttempt).Truncate(10*time.Minute)) // A quarter is chance.
	}
	h.lines = append(h.lines, line)
	return r, nil
}

func (h *editedHandler) end(second error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.second = second
}

// expectUpdate checks that the handler gave up on the creation, and got the edits as one update.
func (h *editedHandler) expectUpdate(t *testing.T) {
	t.Helper()
	lines := h.take()
	if n := len(slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return !strings.HasPrefix(line, "Update 1->") || !strings.HasSuffix(line, " first")
	})); n != 1 {
		t.Errorf("called %q", lines)
	}
}

// An edit between the steps of a handler repeats no step. The attempts go on, and what the first
// step has not seen is an update of its own.
func TestEditsBetweenSteps(t *testing.T) {
	closed := errors.New("the bank is closed")
	onBoth := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
	type env struct {
		*server
		*editedHandler
		restart func()
	}
	to := func(n int) string { return fmt.Sprintf(`{"spec":{"n":%d}}`, n) }
	for name, c := range map[string]struct {
		handler trigger.Handler
		patch   string
		play    func(t *testing.T, e env)
	}{
		"an edit of a created object": {trigger.Handler{On: onBoth}, "", func(t *testing.T, e env) {
			e.expect(t, "Create 1 first")
			e.edit(rates, "eur", to(2))
			pass(time.Second)
			e.expect(t, "Create 2 attempt 1 since 0s")
			e.end(nil)
			pass(time.Hour)
			e.expect(t, "Create 2 attempt 1 since 10m0s", "Update 1->2 first", "Update 1->2")
		}},
		"a fixed spec is tried at once": {trigger.Handler{On: onBoth}, "", func(t *testing.T, e env) {
			e.expect(t, "Create 1 first")
			e.end(nil)
			e.edit(rates, "eur", to(2))
			pass(time.Second)
			e.expect(t, "Create 2 attempt 1 since 0s", "Update 1->2 first", "Update 1->2")
		}},
		"only creations": {trigger.Handler{On: []hook.Reason{hook.ReasonCreate}}, "", func(t *testing.T, e env) {
			e.end(nil)
			e.edit(rates, "eur", to(2))
			pass(time.Hour)
			e.expect(t, "Create 1 first", "Create 2 attempt 1 since 0s")
		}},
		"own changes are no edits": {trigger.Handler{On: onBoth}, `{"spec":{"seen":true}}`, func(t *testing.T, e env) {
			e.expect(t, "Create 1 first")
			e.end(nil)
			pass(time.Hour)
			e.expect(t, "Create 1 attempt 1 since 10m0s")
		}},
		"own changes and an edit": {trigger.Handler{On: onBoth}, `{"spec":{"seen":true}}`, func(t *testing.T, e env) {
			e.end(nil)
			e.edit(rates, "eur", to(2))
			pass(time.Hour)
			e.expect(t, "Create 1 first", "Create 2 attempt 1 since 0s", "Update 1->2 first", "Update 1->2")
		}},
		"a revert": {trigger.Handler{On: []hook.Reason{hook.ReasonUpdate}}, "", func(t *testing.T, e env) {
			e.edit(rates, "eur", to(2))
			pass(time.Second)
			e.expect(t, "Update 1->2 first")
			e.edit(rates, "eur", to(1))
			pass(time.Second)
			e.end(nil)
			pass(time.Hour)
			e.expect(t, "Update 1->1 attempt 1 since 0s", "Update 1->1 attempt 1 since 10m0s", "Update 2->1 first", "Update 2->1")
		}},
		"a restart": {trigger.Handler{On: onBoth}, "", func(t *testing.T, e env) {
			e.restart()
			e.end(nil) // Before the edit, whose call may come at once.
			e.edit(rates, "eur", to(2))
			pass(time.Hour)
			e.expect(t, "Create 1 first", "Create 1", "Create 2 attempt 1 since 0s", "Update 1->2 first", "Update 1->2")
		}},
		"an edit and a restart": {trigger.Handler{On: onBoth}, "", func(t *testing.T, e env) {
			e.edit(rates, "eur", to(2))
			pass(time.Second)
			e.restart()
			e.end(nil)
			pass(time.Hour)
			e.expect(t, "Create 1 first", "Create 2 attempt 1 since 0s", "Create 2", "Create 2 attempt 1 since 10m0s", "Update 2 first", "Update 2")
		}},
		"a permanent error": {trigger.Handler{On: onBoth}, "", func(t *testing.T, e env) {
			e.end(&hook.TerminalError{Err: closed})
			e.edit(rates, "eur", to(2))
			pass(time.Hour)
			e.expect(t, "Create 1 first", "Create 2 attempt 1 since 0s", "Update 1->2 first")
			if r := stateIn(e.get(rates, "eur"))["h"]; !r.Failed || r.Progress != "" {
				t.Errorf("recorded %+v", r)
			}
		}},
		"retries end": {trigger.Handler{On: onBoth, Retries: 2}, "", func(t *testing.T, e env) {
			for n := range 12 {
				e.edit(rates, "eur", to(n+2))
				pass(3 * time.Minute)
			}
			e.expectUpdate(t)
		}},
		"many edits use up no retries": {trigger.Handler{On: onBoth, Retries: 2}, "", func(t *testing.T, e env) {
			for n := range 5 {
				e.edit(rates, "eur", to(n+2))
				pass(time.Second)
			}
			if r := stateIn(e.get(rates, "eur"))["h"]; r.Failed || r.Attempts != 1 || len(e.take()) != 6 {
				t.Errorf("recorded %+v", r)
			}
		}},
		"a timeout ends": {trigger.Handler{On: onBoth, RetryTimeout: 25 * time.Minute}, "", func(t *testing.T, e env) {
			for n := range 12 {
				e.edit(rates, "eur", to(n+2))
				pass(3 * time.Minute)
			}
			e.expectUpdate(t)
		}},
		"a deletion": {trigger.Handler{On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDelete}}, "", func(t *testing.T, e env) {
			e.edit(rates, "eur", to(2))
			pass(time.Second)
			e.expect(t, "Create 1 first", "Create 2 attempt 1 since 0s")
			e.drop(rates, "eur")
			pass(time.Second)
			e.expect(t, "Delete 2 first")
			e.end(nil) // Before the edit, whose call may come at once.
			e.edit(rates, "eur", to(3))
			pass(time.Hour)
			e.expect(t, "Delete 3 attempt 1 since 0s")
			e.expectGone("eur")
		}},
	} {
		runInBubble(t, name, func(t *testing.T, s *server) {
			h := &editedHandler{second: closed, patch: c.patch}
			s.create(rates, "eur", to(1))
			c.handler.Name, c.handler.Backoff, c.handler.MaxBackoff = "h", 10*time.Minute, 10*time.Minute
			p := program(c.handler)
			w := startEnv(s, p, s, map[string]handlerFunc{"h": h.handle})
			pass(time.Second)
			c.play(t, env{s, h, func() {
				w.stop()
				w = startEnv(s, p, s, map[string]handlerFunc{"h": h.handle})
				pass(time.Second)
			}})
		})
	}
}
