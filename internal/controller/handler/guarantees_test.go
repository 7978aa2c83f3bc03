package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// pass lets time pass, until all goroutines are idle.
func pass(d time.Duration) {
	elapse(d)
	synctest.Wait()
}

// countingHandler returns a handler that increments the status.count that it sees.
func countingHandler(seen *[]string) handlerFunc {
	return func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		count := countIn(object.DecodeOrEmpty(n.Object))
		*seen = append(*seen, fmt.Sprintf("%s %s %d", n.Handler, strings.ToLower(string(n.Reason)), count))
		return &hook.HandlerResponse{Status: fmt.Appendf(nil, `{"count":%d}`, count+1)}, nil
	}
}

func countIn(o map[string]any) int64 {
	switch n := field(o, "status", "count").(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// Fault H1: one object whose call gets no response ended the backoff of all others, and
// used up their retries.
func TestBackoffPerObject(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Retries: 3, Backoff: 5 * time.Second})
		for _, name := range []string{"a", "b", "c"} {
			s.create(rates, name, `{}`)
		}
		w := startEnv(s, p, s, map[string]handlerFunc{"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			if n.Name == "b" {
				return nil, &hook.UnreachableError{Err: errors.New("connection closed")}
			}
			return nil, errors.New("not today")
		}})
		pass(time.Hour)
		for _, name := range []string{"a", "b", "c"} {
			made := w.callsOf("h", name)
			if len(made) != 4 {
				t.Fatalf("%s: %d calls, want 1 and 3 retries", name, len(made))
			}
			for i, least := range []time.Duration{5 * time.Second, 10 * time.Second, 15 * time.Second} {
				if gap := made[i+1].at.Sub(made[i].at); gap < least || gap > 26*time.Second {
					t.Errorf("%s: retry %d after %s, want at least %s", name, i+1, gap, least)
				}
			}
		}
	})
}

// Fault H1: a watch that recovers does not end backoffs either, though failed writes are
// retried then.
func TestWatchRecoveryCallsNoHandler(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{}`)
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Backoff: time.Minute})
		w := startEnv(s, p, s, map[string]handlerFunc{"h": answers(nil, errors.New("no"))})
		pass(time.Second)
		for range 5 {
			w.RetryWrites()
			pass(time.Second)
		}
		w.expectCalls(t, "h", "", 1)
		w.RetryNow()
		pass(time.Second)
		w.expectCalls(t, "h", "", 2)
	})
}

// Fault H2: a handler of events saw the object without what earlier handlers of the run
// wrote, and overwrote it.
func TestEventHandlersSeeEarlierWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		var seen []string
		startEnv(s, program(
			trigger.Handler{Name: "one", On: []hook.Reason{hook.ReasonCreate}},
			trigger.Handler{Name: "two", On: []hook.Reason{hook.ReasonEvent}},
			trigger.Handler{Name: "three", On: []hook.Reason{hook.ReasonCreate}},
		), s, map[string]handlerFunc{"one": countingHandler(&seen), "two": countingHandler(&seen), "three": countingHandler(&seen)})
		pass(time.Second)
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		pass(time.Second)
		want := []string{"one create 0", "two event 1", "three create 2"}
		if !slices.Equal(seen, want) || countIn(s.get(rates, "eur")) != 3 {
			t.Errorf("saw %q, want %q; stored %d", seen, want, countIn(s.get(rates, "eur")))
		}
	})
}

// An event has its change beside the current object.
func TestEventChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		var received []string
		startEnv(s, program(
			trigger.Handler{Name: "slow", On: []hook.Reason{hook.ReasonCreate}},
			trigger.Handler{Name: "e", On: []hook.Reason{hook.ReasonEvent}},
		), s, map[string]handlerFunc{
			"slow": func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				s.edit(rates, "eur", `{"spec":{"n":2}}`)
				s.edit(rates, "eur", `{"spec":{"n":3}}`)
				return &hook.HandlerResponse{Status: json.RawMessage(`{"done":true}`)}, nil
			},
			"e": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				line := fmt.Sprintf("%s %s", text(field(object.DecodeOrEmpty(n.Object), "spec", "n")), text(field(object.DecodeOrEmpty(n.Object), "status", "done")))
				for _, c := range n.Changes {
					line += fmt.Sprintf(" %s:%s->%s", c.Path, c.From, c.To)
				}
				received = append(received, line)
				return &hook.HandlerResponse{}, nil
			},
		})
		pass(time.Second)
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		pass(time.Second)
		want := []string{"3 true", "3 true spec.n:1->2", "3 true spec.n:2->3"}
		if !slices.Equal(received, want) {
			t.Errorf("got %q, want %q", received, want)
		}
	})
}

// A response does not overwrite what another client wrote during the call: the handler is
// called again.
func TestConflictingResponseIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		var seen []string
		count := countingHandler(&seen)
		startEnv(s, program(trigger.Handler{Name: "c", On: []hook.Reason{hook.ReasonCreate}}), s, map[string]handlerFunc{
			"c": func(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				if len(seen) == 0 {
					s.edit(rates, "eur", `{"status":{"count":7}}`)
				}
				return count(ctx, n)
			},
		})
		pass(10 * time.Second)
		if got := countIn(s.get(rates, "eur")); got != 8 || !slices.Equal(seen, []string{"c create 0", "c create 7"}) {
			t.Errorf("saw %q, stored %d", seen, got)
		}
	})
}

// Two programs, of which one fails, do not keep overwriting the condition.
func TestProgramsShareCondition(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		first, second := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}}), program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}})
		second.Name, second.Record.Annotation, second.Record.StatusKey = "second", "setpoint.dev/handled-by-second", ""
		var fails atomic.Bool
		fails.Store(true)
		s.create(rates, "eur", `{"spec":{"n":1},"status":{"conditions":[]}}`)
		for _, p := range []Program{first, second} {
			w := startEnv(s, p, s, map[string]handlerFunc{"h": func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				if fails.Load() {
					return nil, &hook.RetryAfterError{After: time.Minute, Err: errors.New("not from " + p.Name)}
				}
				return &hook.HandlerResponse{}, nil
			}})
			t.Cleanup(w.stop)
		}
		pass(time.Second)
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		pass(30 * time.Second)
		if c := conditionsOf(s.get(rates, "eur")); strings.Count(c, "not from ") != 1 || strings.Count(c, `"type":"Handled"`) != 1 {
			t.Errorf("conditions %s", c)
		}
		fails.Store(false)
		pass(5 * time.Minute)
		if c := conditionsOf(s.get(rates, "eur")); !strings.Contains(c, `"status":"True"`) {
			t.Errorf("conditions %s", c)
		}
		if n := len(s.wrote("PATCH")); n > 10 {
			t.Errorf("%d writes", n)
		}
	})
}

// Fault H5: a rejected write of one handler blocked the others, which had no record and were
// called again after a restart.
func TestRejectedWriteBlocksOneHandler(t *testing.T) {
	for _, records := range []string{"annotation", "status"} {
		t.Run(records, func(t *testing.T) {
			t.Setenv(stateLocationVariable, records)
			inBubble(t, testRejectedWrite)
		})
	}
}

func testRejectedWrite(t *testing.T, s *server) {
	refusing := true
	s.reject = rejects(http.StatusUnprocessableEntity, func(_, path string, body map[string]any) bool {
		return refusing && field(body, "status", "bad") != nil
	})
	do := map[string]handlerFunc{}
	for _, name := range []string{"first", "bad", "last"} {
		do[name] = answers(&hook.HandlerResponse{Status: json.RawMessage(`{"` + name + `":"done"}`)}, nil)
	}
	p := program(trigger.Handler{Name: "first", On: []hook.Reason{hook.ReasonCreate}}, trigger.Handler{Name: "bad", On: []hook.Reason{hook.ReasonCreate}}, trigger.Handler{Name: "last", On: []hook.Reason{hook.ReasonCreate}})
	p.Conditions = true
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	w := startEnv(s, p, s, do)
	pass(time.Minute)
	o := s.get(rates, "eur")
	if field(o, "status", "first") != "done" || field(o, "status", "last") != "done" || field(o, "status", "bad") != nil {
		t.Errorf("status %s", text(o["status"]))
	}
	if r := stateIn(o); r["first"].Digest == "" || r["last"].Digest == "" || r["bad"].Digest != "" {
		t.Errorf("recorded %+v", r)
	}
	if c := conditionsOf(o); !strings.Contains(c, "handler bad: ") || !strings.Contains(c, controller.ReasonWriteFailed) {
		t.Errorf("conditions %s", c)
	}
	for _, name := range []string{"first", "bad", "last"} {
		w.expectCalls(t, name, "", 1)
	}
	w.stop()
	w = startEnv(s, p, s, do)
	pass(time.Minute)
	if len(w.callsOf("first", ""))+len(w.callsOf("last", "")) > 0 || len(w.callsOf("bad", "")) != 1 {
		t.Errorf("after a restart called %+v", w.calls)
	}
	s.set(func() { refusing = false })
	pass(10 * time.Minute)
	if o := s.get(rates, "eur"); field(o, "status", "bad") != "done" || stateIn(o)["bad"].Digest == "" || strings.Contains(conditionsOf(o), `"False"`) || len(w.callsOf("bad", "")) != 1 {
		t.Errorf("left %s after %d calls", text(o), len(w.callsOf("bad", "")))
	}
}

// Fault H5: the first of two handlers, which had finished, was called again when the process
// was killed during the call of the second.
func TestStateIsStoredBeforeNextCall(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		var recorded lasthandled.Record
		both := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
		startEnv(s, program(trigger.Handler{Name: "one", On: both}, trigger.Handler{Name: "two", On: both}), s, map[string]handlerFunc{
			"two": func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				recorded = stateIn(s.get(rates, "eur"))
				return &hook.HandlerResponse{}, nil
			},
		})
		pass(time.Second)
		if recorded["one"].Digest == "" || recorded["two"].Digest != "" {
			t.Errorf("recorded %+v when the second was called", recorded)
		}
	})
}

// A call without side effects needs no write of its own.
func TestNoSideEffects(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		both := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
		nothing := answers(&hook.HandlerResponse{NoSideEffects: true}, nil)
		p := program(trigger.Handler{Name: "one", On: both}, trigger.Handler{Name: "two", On: both}, trigger.Handler{Name: "three", On: both})
		w := startEnv(s, p, s, map[string]handlerFunc{"one": nothing, "three": nothing})
		pass(time.Second)
		recorded := stateIn(s.get(rates, "eur"))
		if wrote := s.wrote("PATCH rates/eur"); len(wrote) != 2 || recorded["one"].Digest == "" || recorded["three"].Digest == "" {
			t.Errorf("recorded %+v with %d writes, want one for two and one at the end: %q", recorded, len(wrote), wrote)
		}
		pass(time.Hour)
		w.expectCalls(t, "one", "eur", 1)
	})
}

// Fault H7: a delayed or slow timer was called again at its next time, however soon that was.
func TestTimerInterval(t *testing.T) {
	for name, c := range map[string]struct {
		idle, takes time.Duration
		least       time.Duration
	}{
		"on time":  {0, 10 * time.Millisecond, 2 * time.Second},
		"idle":     {1900 * time.Millisecond, 0, 2 * time.Second},
		"slow":     {0, 3900 * time.Millisecond, 5900 * time.Millisecond},
		"too slow": {0, 2 * time.Second, 4 * time.Second},
	} {
		runInBubble(t, name, func(t *testing.T, s *server) {
			s.create(rates, "eur", `{"spec":{"n":1}}`)
			w := startEnv(s, program(trigger.Handler{Name: "t", Every: 2 * time.Second, Idle: c.idle, Fields: [][]string{{"spec"}}}), s, map[string]handlerFunc{
				"t": func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
					elapse(c.takes)
					return &hook.HandlerResponse{}, nil
				},
			})
			for i := range 20 {
				pass(1100 * time.Millisecond)
				if i%4 == 0 {
					s.edit(rates, "eur", fmt.Sprintf(`{"spec":{"n":%d}}`, i+2))
				}
			}
			made := w.callsOf("t", "")
			if len(made) < 3 {
				t.Fatalf("%d calls", len(made))
			}
			for i := range made[1:] {
				if gap := made[i+1].at.Sub(made[i].at); gap < c.least {
					t.Errorf("call %d came %s after the one before, want at least %s", i+1, gap, c.least)
				}
			}
		})
	}
}

// Fault H9: a handler that requests an immediate call gets it, and the next ones after its
// backoff.
func TestImmediateRetry(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		w := startEnv(s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Backoff: time.Second}), s, map[string]handlerFunc{
			"h": answers(&hook.HandlerResponse{RetryAfter: hook.Immediately, Status: json.RawMessage(`{"seen":true}`)}, nil),
		})
		pass(9 * time.Second)
		made := w.callsOf("h", "")
		if len(made) != 5 {
			t.Fatalf("%d calls within 9s, want 5: at once twice, and after 1s, 2s, 4s", len(made))
		}
		if gap := made[1].at.Sub(made[0].at); gap > 100*time.Millisecond {
			t.Errorf("the second call came after %s", gap)
		}
		for i, least := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if gap := made[i+2].at.Sub(made[i+1].at); gap < least || gap > least*5/4+100*time.Millisecond {
				t.Errorf("call %d came after %s, want about %s", i+3, gap, least)
			}
		}
	})
}

// incrementHandler returns a handler that changes a field of the spec with each call.
func incrementHandler(name string) handlerFunc {
	return func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		was, _ := field(object.DecodeOrEmpty(n.Object), "spec", name).(int64)
		return &hook.HandlerResponse{Patch: fmt.Appendf(nil, `{"spec":{%q:%d}}`, name, was+1)}, nil
	}
}

// Fault H3: two programs that undo each other's changes, or two event handlers that write the
// spec, were called as fast as the API server could write, without an event.
func TestThrottling(t *testing.T) {
	watching := func(path string) trigger.Handler {
		return trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, Fields: [][]string{{"spec", path}}}
	}
	for name, c := range map[string]struct{ a, b []trigger.Handler }{
		"two programs": {[]trigger.Handler{watching("b")}, []trigger.Handler{watching("a")}},
		"two of events": {
			[]trigger.Handler{{Name: "h", On: []hook.Reason{hook.ReasonEvent}}}, []trigger.Handler{{Name: "h", On: []hook.Reason{hook.ReasonEvent}}},
		},
	} {
		runInBubble(t, name, func(t *testing.T, s *server) { testThrottling(t, s, c.a, c.b) })
	}
}

func testThrottling(t *testing.T, s *server, a, b []trigger.Handler) {
	s.create(rates, "eur", `{"spec":{"a":0,"b":0},"status":{"conditions":[]}}`)
	s.create(rates, "usd", `{"spec":{"a":0,"b":0},"status":{"conditions":[]}}`)
	first, second := program(a...), program(b...)
	second.Name, second.Record.Annotation, second.Record.StatusKey = "second", "setpoint.dev/handled-by-second", ""
	x := startEnv(s, first, s, map[string]handlerFunc{"h": incrementHandler("a")})
	y := startEnv(s, second, s, map[string]handlerFunc{"h": func(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if n.Name == "usd" {
			return &hook.HandlerResponse{}, nil
		}
		return incrementHandler("b")(ctx, n)
	}})
	pass(time.Second)
	s.edit(rates, "eur", `{"spec":{"b":100}}`)
	pass(20 * time.Second)
	calls := len(x.callsOf("h", "eur"))
	// A call with a conflicting response counts as read-only.
	if calls < trigger.Burst || calls > 2*trigger.Burst {
		t.Errorf("%d calls within 20s", calls)
	}
	pass(10 * time.Minute)
	if more := len(x.callsOf("h", "eur")) - calls; more < 10 || more > 25 {
		t.Errorf("%d calls within the next 10 minutes", more)
	}
	// The one that is throttled first may end it for both.
	isConflict := func(e string) bool {
		return strings.Contains(e, "eur Conflicting handlers run again and again") && strings.Contains(e, "The latest was h on")
	}
	for _, w := range []*bubbleEnv{x, y} {
		events := slices.DeleteFunc(w.eventLines(), func(e string) bool {
			return !strings.HasPrefix(e, "eur ") || strings.Contains(e, "too many conflicts in a row")
		})
		if len(events) > 1 || len(events) == 1 && !isConflict(events[0]) || len(events) != w.Health().Conflicting {
			t.Errorf("got %q; %d objects are conflicting", events, w.Health().Conflicting)
		}
	}
	conflicted := x.Health().Conflicting
	if conflicted+y.Health().Conflicting == 0 {
		t.Error("no program reports the conflict")
	}
	if c := conditionsOf(s.get(rates, "eur")); !strings.Contains(c, `"reason":"Conflicting"`) || !strings.Contains(c, `"status":"False"`) {
		t.Errorf("conditions %s", c)
	}
	// Other objects are not throttled, nor are manual reconciles.
	before := len(x.callsOf("h", "usd"))
	s.edit(rates, "usd", `{"spec":{"b":5}}`)
	pass(100 * time.Millisecond)
	if len(x.callsOf("h", "usd")) == before {
		t.Error("another object waits")
	}
	before = len(x.callsOf("h", "eur"))
	s.edit(rates, "eur", `{"spec":{"b":1000},"metadata":{"annotations":{"setpoint.dev/reconcile-at":"now"}}}`)
	pass(100 * time.Millisecond)
	if len(x.callsOf("h", "eur")) == before {
		t.Error("what a user asks for waits")
	}
	// The conflict ends with one of the two programs.
	y.stop()
	pass(2 * time.Minute)
	if h := x.Health(); h.Conflicting != 0 {
		t.Error("still conflicting")
	}
	if events := x.eventLines(); conflicted > 0 && !strings.HasPrefix(events[len(events)-1], "eur ConflictResolved") {
		t.Errorf("got %q", events)
	}
	if c := conditionsOf(s.get(rates, "eur")); !strings.Contains(c, `"status":"True"`) {
		t.Errorf("conditions %s", c)
	}
	before = len(x.callsOf("h", "eur"))
	s.edit(rates, "eur", `{"spec":{"b":7}}`)
	pass(100 * time.Millisecond)
	if len(x.callsOf("h", "eur")) != before+1 {
		t.Error("an edit waits once it is over")
	}
}

// A loop within one program is reported, too, and delays neither timers nor deletions.
func TestThrottlingWithinProgram(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"a":0,"b":0}}`)
		w := startEnv(s, program(
			trigger.Handler{Name: "a", On: []hook.Reason{hook.ReasonUpdate}, Fields: [][]string{{"spec", "b"}}},
			trigger.Handler{Name: "b", On: []hook.Reason{hook.ReasonUpdate}, Fields: [][]string{{"spec", "a"}}},
			trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonDelete}},
			trigger.Handler{Name: "t", Every: time.Second},
		), s, map[string]handlerFunc{"a": incrementHandler("a"), "b": incrementHandler("b")})
		pass(time.Second)
		s.edit(rates, "eur", `{"spec":{"b":1}}`)
		pass(5 * time.Minute)
		if n := len(w.callsOf("a", "")); n < trigger.Burst || n > trigger.Burst+25 {
			t.Errorf("%d calls", n)
		}
		if received := w.eventLines(); len(received) != 1 || !strings.HasPrefix(received[0], "eur Conflicting") {
			t.Errorf("got %q", received)
		}
		if n := len(w.callsOf("t", "")); n < 295 {
			t.Errorf("the timer was called %d times in 5 minutes", n)
		}
		s.drop(rates, "eur")
		pass(time.Second)
		s.expectGone("eur")
	})
}

// A user's edits, or a tool that applies a manifest repeatedly, are not throttled.
func TestEditsAreNotThrottled(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"n":0}}`)
		w := startEnv(s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}}), s, map[string]handlerFunc{"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			return &hook.HandlerResponse{Status: fmt.Appendf(nil, `{"n":%s}`, text(field(object.DecodeOrEmpty(n.Object), "spec", "n")))}, nil
		}})
		pass(time.Second)
		for i := range 1000 {
			s.edit(rates, "eur", fmt.Sprintf(`{"spec":{"n":%d}}`, i+1))
			pass(50 * time.Millisecond)
			if got := text(field(s.get(rates, "eur"), "status", "n")); got != text(i+1) {
				t.Fatalf("edit %d is handled late: %s", i+1, got)
			}
			if i >= 40 {
				pass(time.Second)
			}
		}
		w.expectEvents(t)
	})
}

// A timer with an initial delay counts from when the object is first seen, and from the end of
// each call, or from its start. The delay of an error replaces the interval of a timer that counts
// from the end of its calls; a backoff ends with the interval.
func TestTimesOfTimers(t *testing.T) {
	later := &hook.RetryAfterError{After: 30 * time.Second, Err: errLost}
	for name, c := range map[string]struct {
		handler trigger.Handler
		takes   time.Duration
		err     error
		want    []time.Duration // in seconds
	}{
		"at once":           {trigger.Handler{}, 4 * time.Second, nil, []time.Duration{0, 14, 28}},
		"delayed":           {trigger.Handler{InitialDelay: 5 * time.Second}, 4 * time.Second, nil, []time.Duration{5, 19}},
		"sharp":             {trigger.Handler{Sharp: true}, 4 * time.Second, nil, []time.Duration{0, 10, 20}},
		"sharp, slow":       {trigger.Handler{Every: 3 * time.Second, Sharp: true}, 4 * time.Second, nil, []time.Duration{0, 7, 14}},
		"idle":              {trigger.Handler{Idle: 8 * time.Second}, 4 * time.Second, nil, []time.Duration{8, 22}},
		"unmatched":         {trigger.Handler{When: isNamed("usd")}, 0, nil, nil},
		"requested delay":   {trigger.Handler{}, 0, later, []time.Duration{0, 30, 60}},
		"backoff":           {trigger.Handler{Backoff: time.Minute}, 0, errLost, []time.Duration{0, 10, 20}},
		"from the creation": {trigger.Handler{}, 0, later, []time.Duration{7, 17, 27}},
	} {
		runInBubble(t, name, func(t *testing.T, s *server) {
			s.create(rates, "eur", `{"metadata":{"creationTimestamp":"1999-12-31T23:59:57Z"}}`)
			c.handler.Name, c.handler.FromFirstSeen = "t", name != "from the creation"
			c.handler.Every = cmp.Or(c.handler.Every, 10*time.Second)
			begun := time.Now()
			timer := func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
				elapse(c.takes)
				return &hook.HandlerResponse{}, c.err
			}
			w := startEnv(s, program(c.handler), s, map[string]handlerFunc{"t": timer})
			pass(61 * time.Second)
			made := w.callsOf("t", "")
			if len(made) < len(c.want) || c.want == nil && len(made) > 0 {
				t.Fatalf("%d calls", len(made))
			}
			for i, want := range c.want {
				if at := made[i].at.Sub(begun).Round(10 * time.Millisecond); at != want*time.Second {
					t.Errorf("call %d came after %s, want %d s", i, at, want)
				}
			}
		})
	}
}
