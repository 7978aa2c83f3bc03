package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// editedHandler has two steps: one succeeds in its first call, the other fails until told otherwise.
type editedHandler struct {
	mu    sync.Mutex
	lines []string
	// second is the end of the second step; patch is what the first one changes.
	second error
	patch  string
}

func (h *editedHandler) handle(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := intIn(decodeObject(n.Object), "spec", "n")
	line := fmt.Sprintf("%s %d", n.Reason, now)
	if n.PreviousState != nil {
		line = fmt.Sprintf("%s %d->%d", n.Reason, intIn(decodeObject(n.PreviousState), "spec", "n"), now)
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

func (h *editedHandler) expect(t *testing.T, want ...string) {
	t.Helper()
	if lines := h.take(); !slices.Equal(lines, want) {
		t.Errorf("called %q, want %q", lines, want)
	}
}

func (h *editedHandler) end(second error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.second = second
}

// take returns the calls since the last time.
func (h *editedHandler) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	h.lines = nil
	return lines
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
	onBoth := []hook.Reason{onCreate, onUpdate}
	type env struct {
		*server
		*editedHandler
		restart func()
	}
	to := func(n int) string { return fmt.Sprintf(`{"spec":{"n":%d}}`, n) }
	for name, c := range map[string]struct {
		handler Handler
		patch   string
		play    func(t *testing.T, e env)
	}{
		"an edit of a created object": {Handler{On: onBoth}, "", func(t *testing.T, e env) {
			e.expect(t, "Create 1 first")
			e.edit(rates, "eur", to(2))
			pass(time.Second)
			e.expect(t, "Create 2 attempt 1 since 0s")
			e.end(nil)
			pass(time.Hour)
			e.expect(t, "Create 2 attempt 1 since 10m0s", "Update 1->2 first", "Update 1->2")
		}},
		"a fixed spec is tried at once": {Handler{On: onBoth}, "", func(t *testing.T, e env) {
			e.expect(t, "Create 1 first")
			e.end(nil)
			e.edit(rates, "eur", to(2))
			pass(time.Second)
			e.expect(t, "Create 2 attempt 1 since 0s", "Update 1->2 first", "Update 1->2")
		}},
		"only creations": {Handler{On: []hook.Reason{onCreate}}, "", func(t *testing.T, e env) {
			e.end(nil)
			e.edit(rates, "eur", to(2))
			pass(time.Hour)
			e.expect(t, "Create 1 first", "Create 2 attempt 1 since 0s")
		}},
		"own changes are no edits": {Handler{On: onBoth}, `{"spec":{"seen":true}}`, func(t *testing.T, e env) {
			e.expect(t, "Create 1 first")
			e.end(nil)
			pass(time.Hour)
			e.expect(t, "Create 1 attempt 1 since 10m0s")
		}},
		"own changes and an edit": {Handler{On: onBoth}, `{"spec":{"seen":true}}`, func(t *testing.T, e env) {
			e.end(nil)
			e.edit(rates, "eur", to(2))
			pass(time.Hour)
			e.expect(t, "Create 1 first", "Create 2 attempt 1 since 0s", "Update 1->2 first", "Update 1->2")
		}},
		"a revert": {Handler{On: []hook.Reason{onUpdate}}, "", func(t *testing.T, e env) {
			e.edit(rates, "eur", to(2))
			pass(time.Second)
			e.expect(t, "Update 1->2 first")
			e.edit(rates, "eur", to(1))
			pass(time.Second)
			e.end(nil)
			pass(time.Hour)
			e.expect(t, "Update 1->1 attempt 1 since 0s", "Update 1->1 attempt 1 since 10m0s", "Update 2->1 first", "Update 2->1")
		}},
		"a restart": {Handler{On: onBoth}, "", func(t *testing.T, e env) {
			e.restart()
			e.end(nil) // Before the edit, whose call may come at once.
			e.edit(rates, "eur", to(2))
			pass(time.Hour)
			e.expect(t, "Create 1 first", "Create 1", "Create 2 attempt 1 since 0s", "Update 1->2 first", "Update 1->2")
		}},
		"an edit and a restart": {Handler{On: onBoth}, "", func(t *testing.T, e env) {
			e.edit(rates, "eur", to(2))
			pass(time.Second)
			e.restart()
			e.end(nil)
			pass(time.Hour)
			e.expect(t, "Create 1 first", "Create 2 attempt 1 since 0s", "Create 2", "Create 2 attempt 1 since 10m0s", "Update 2 first", "Update 2")
		}},
		"a permanent error": {Handler{On: onBoth}, "", func(t *testing.T, e env) {
			e.end(&hook.TerminalError{Err: closed})
			e.edit(rates, "eur", to(2))
			pass(time.Hour)
			e.expect(t, "Create 1 first", "Create 2 attempt 1 since 0s", "Update 1->2 first")
			if r := stateIn(e.get(rates, "eur"))["h"]; !r.Failed || r.Progress != "" {
				t.Errorf("recorded %+v", r)
			}
		}},
		"retries end": {Handler{On: onBoth, Retries: 2}, "", func(t *testing.T, e env) {
			for n := range 12 {
				e.edit(rates, "eur", to(n+2))
				pass(3 * time.Minute)
			}
			e.expectUpdate(t)
		}},
		"many edits use up no retries": {Handler{On: onBoth, Retries: 2}, "", func(t *testing.T, e env) {
			for n := range 5 {
				e.edit(rates, "eur", to(n+2))
				pass(time.Second)
			}
			if r := stateIn(e.get(rates, "eur"))["h"]; r.Failed || r.Attempts != 1 || len(e.take()) != 6 {
				t.Errorf("recorded %+v", r)
			}
		}},
		"a timeout ends": {Handler{On: onBoth, RetryTimeout: 25 * time.Minute}, "", func(t *testing.T, e env) {
			for n := range 12 {
				e.edit(rates, "eur", to(n+2))
				pass(3 * time.Minute)
			}
			e.expectUpdate(t)
		}},
		"a deletion": {Handler{On: []hook.Reason{onCreate, onUpdate, onDelete}}, "", func(t *testing.T, e env) {
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
			if e.get(rates, "eur") != nil {
				t.Error("the object is not gone")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newBubbleServer(t), &editedHandler{second: closed, patch: c.patch}
				s.create(rates, "eur", to(1))
				c.handler.Name, c.handler.Backoff, c.handler.MaxBackoff = "h", 10*time.Minute, 10*time.Minute
				p := program(c.handler)
				w := startEnv(s, p, s, map[string]handlerFunc{"h": h.handle})
				defer func() { w.stop() }()
				pass(time.Second)
				c.play(t, env{s, h, func() {
					w.stop()
					w = startEnv(s, p, s, map[string]handlerFunc{"h": h.handle})
					pass(time.Second)
				}})
			})
		})
	}
}
