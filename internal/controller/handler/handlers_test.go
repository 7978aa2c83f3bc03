package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

func (s *testEnv) wasCalled(line string) bool { return slices.Contains(s.calledLines(), line) }

func conditionsOf(o map[string]any) string { return text(field(o, "status", "conditions")) }

func TestTimer(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	var fails atomic.Bool
	e.respond("t", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if fails.Load() {
			return nil, errors.New("no rate")
		}
		return &hook.HandlerResponse{Status: json.RawMessage(`{"rate":1}`)}, nil
	})
	st := e.start(t, s, program(trigger.Handler{Name: "t", Every: 50 * time.Millisecond, Do: e}))
	s.create(rates, "eur", `{}`)
	eventually(t, "three times", func() bool { return len(st.calledLines()) >= 3 })
	s.expectWrites("PATCH", 1)
	fails.Store(true)
	eventually(t, "again, no later than the next moment", func() bool { return st.wasCalled("t timer eur attempt 3") })
	fails.Store(false)
	eventually(t, "well", func() bool { return st.Health().Failing == 0 })
	s.drop(rates, "eur")
	eventually(t, "gone", func() bool { // What the deletion causes is queued once it is delivered.
		return st.isUpToDate() && st.Health().Queue == (queue.Stats{}) && st.Health().Failing == 0
	})
	n := len(st.calledLines())
	st.waitIdle(t)
	if len(st.calledLines()) > n {
		t.Error("called for a deleted object")
	}
}

// Each event makes a call, including the deletion; nothing is recorded or retried.
func TestEvents(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("e", nil, errors.New("whatever"))
	st := e.start(t, s, program(trigger.Handler{Name: "e", On: []hook.Reason{hook.ReasonEvent}, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expectCalls(t, "e event eur")
	s.edit(rates, "eur", `{"status":{"n":1}}`)
	st.expectCalls(t, "e event eur", "e event eur")
	s.drop(rates, "eur")
	st.expectCalls(t, "e event eur", "e event eur", "e event eur gone")
	s.expectWrites("", 0)
}

// An optional Delete handler sets no finalizer, but is called.
func TestOptionalDelete(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	st := e.start(t, s, program(trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonDelete}, Optional: true, Do: e}))
	s.create(rates, "eur", `{}`)
	st.waitIdle(t)
	s.drop(rates, "eur")
	st.expectCalls(t, "d delete eur gone")
	s.create(rates, "usd", `{"metadata":{"finalizers":["somebody/else"]}}`)
	st.waitIdle(t)
	s.drop(rates, "usd")
	st.expectCalls(t, "d delete eur gone", "d delete usd")
	s.edit(rates, "usd", `{"metadata":{"finalizers":null}}`)
	eventually(t, "gone", func() bool { return s.get(rates, "usd") == nil })
	st.expectCalls(t, "d delete eur gone", "d delete usd")
}

// Whole numbers that a handler writes like floats become integers in everything that it writes, and are no change where
// they are the same.
func TestWholeNumbersOfHandlers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Every: time.Minute})
		p.Owns = []object.Resource{configMaps}
		startEnv(s, p, s, map[string]handlerFunc{"h": answers(&hook.HandlerResponse{
			Patch: []byte(`{"spec":{"n":2.0,"m":1e3}}`), Status: []byte(`{"n":4e0}`),
			Apply: []hook.AppliedObject{{Object: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"n":2.0,"h":0.5}}`)}},
		}, nil)})
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		pass(time.Hour)
		writes := s.wrote("")
		if all := strings.Join(writes, "\n"); len(writes) > 4 || strings.Contains(all, "2.0") || strings.Contains(all, "1e3") || strings.Contains(all, "4e0") {
			t.Errorf("wrote %s", all)
		}
		if o := s.get(rates, "eur"); text(o["spec"]) != `{"m":1000,"n":2}` || text(field(s.get(configMaps, "c"), "data")) != `{"h":0.5,"n":2}` {
			t.Errorf("stored %s", text(o))
		}
	})
}

// An object waits for its deletion from before the first call. One that is gone before Setpoint reaches it has none, and
// an optional handler has none for one that goes while Setpoint is stopped.
func TestDeletionBeforeFirstCall(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		var made []string
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonDelete}}, trigger.Handler{Name: "o", On: []hook.Reason{hook.ReasonDelete}, Optional: true})
		p.Workers = 1
		f := func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			made = append(made, fmt.Sprintf("%s %s %s %v", n.Handler, n.Reason, n.Name, n.Deleted))
			if n.Name == "slow" && n.Reason == hook.ReasonCreate {
				if finalizers := text(field(s.get(rates, n.Name), "metadata", "finalizers")); !strings.Contains(finalizers, finalizer) {
					t.Errorf("called with the finalizers %s", finalizers)
				}
				s.create(rates, "quick", `{}`)
				s.drop(rates, "quick")
				elapse(time.Minute)
			}
			return &hook.HandlerResponse{}, nil
		}
		start := func() *bubbleEnv { return startEnv(s, p, s, map[string]handlerFunc{"h": f, "o": f}) }
		w := start()
		s.create(rates, "slow", `{}`)
		pass(time.Hour)
		w.stop()
		if got := strings.Join(made, ", "); got != "h Create slow false, o Delete quick true" {
			t.Errorf("calls: %s", got)
		}
		made = nil
		p.Handlers = p.Handlers[1:]
		s.edit(rates, "slow", `{"metadata":{"finalizers":null}}`)
		s.drop(rates, "slow")
		w = start()
		pass(time.Hour)
		w.stop()
		if len(made) > 0 {
			t.Errorf("calls for what went while Setpoint was stopped: %q", made)
		}
	})
}

// A deletion waits for a handler that gave up, which is reported.
func TestDeletionWaitsForFailedHandler(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("d", nil, &hook.TerminalError{Err: errors.New("the bank is closed")})
	st := e.start(t, s, program(trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonDelete}, Do: e}))
	s.create(rates, "eur", `{"status":{"conditions":[]}}`)
	eventually(t, "held", func() bool { return strings.Contains(text(s.get(rates, "eur")), finalizer) })
	s.drop(rates, "eur")
	st.expectCalls(t, "d delete eur")
	if o := s.get(rates, "eur"); o == nil || !strings.Contains(conditionsOf(o), "the bank is closed") {
		t.Errorf("left %s", text(o))
	}
	e.respond("d", nil)
	s.edit(rates, "eur", `{"metadata":{"annotations":{"setpoint.dev/reconcile-at":"now"}}}`)
	eventually(t, "gone", func() bool { return s.get(rates, "eur") == nil })
}

// Attempts count across restarts if a limit is declared.
func TestRetryLimitsSurviveRestart(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", nil, errors.New("no"))
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Retries: 2, Backoff: time.Minute, Do: e})
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	for attempt, line := range []string{"h create eur", "h create eur attempt 1", "h create eur attempt 2"} {
		st := e.start(t, s, p)
		st.expectCalls(t, line)
		if got := stateIn(s.get(rates, "eur"))["h"]; attempt < 2 && got.Attempts != attempt+1 || attempt == 2 && !got.Failed {
			t.Errorf("recorded %+v after %s", got, line)
		}
		st.stop()
	}
	st := e.start(t, s, p)
	st.expectCalls(t)
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "h update eur spec.n:1->2")
}

// A call that failed may have done a part of the work, so the handler is called for the state before as well. That
// clears its error.
func TestRevertedEditClearsFailure(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, Retries: 5, Backoff: time.Minute, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1},"status":{"conditions":[]}}`)
	eventually(t, "recorded", func() bool { return stateIn(s.get(rates, "eur"))["h"].Digest != "" })
	e.respond("h", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if strings.Contains(string(n.Object), `"n":2`) {
			return nil, errors.New("no such number")
		}
		return &hook.HandlerResponse{}, nil
	})
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	eventually(t, "complaint", func() bool { return strings.Contains(conditionsOf(s.get(rates, "eur")), "no such number") })
	s.edit(rates, "eur", `{"spec":{"n":1}}`)
	eventually(t, "no complaint", func() bool {
		o := s.get(rates, "eur")
		return strings.Contains(conditionsOf(o), `"True"`) && stateIn(o)["h"].Attempts == 0 && st.Health().Failing == 0
	})
	st.expectCalls(t, "h update eur spec.n:1->2", "h update eur attempt 1")
}

// A response with undeclared writes is rejected as a whole.
func TestUndeclaredWrites(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", &hook.HandlerResponse{
		Patch:  json.RawMessage(`{"spec":{"done":true}}`),
		Delete: []hook.Deletion{{APIVersion: "v1", Kind: "Pod", Selector: "app=web"}},
	}, nil)
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e}))
	s.create(pods, "web", `{"metadata":{"labels":{"app":"web"}}}`)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expectCalls(t, "h create eur")
	want := "eur HandlerGaveUp gave up: handler h: delete[0]: may not delete v1 Pod: the controller does not declare it; add the kind to those that it owns or may delete"
	st.expectEvents(t, want)
	if s.get(pods, "web") == nil || field(s.get(rates, "eur"), "spec", "done") != nil {
		t.Error("acted upon")
	}
}

// A conflict of a deletion means that the object was replaced only if it was.
func TestConflictOfDeletion(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", &hook.HandlerResponse{Delete: []hook.Deletion{{APIVersion: "v1", Kind: "Pod", Name: "web"}}}, nil)
	conflicts := 1
	s.reject = func(method, path string, _ map[string]any) int {
		if method != http.MethodDelete || conflicts == 0 {
			return 0
		}
		conflicts--
		return http.StatusConflict
	}
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e})
	p.Writes = []permit.Write{{Resource: pods, Delete: true}}
	s.create(pods, "web", `{}`)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st := e.start(t, s, p)
	eventually(t, "deleted", func() bool { return s.get(pods, "web") == nil })
	st.expectCalls(t, "h create eur")
}

// Pods are evicted as far as budgets allow; their replacements are not.
func TestEviction(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", &hook.HandlerResponse{Delete: []hook.Deletion{{APIVersion: "v1", Kind: "Pod", Selector: "app=web", Evict: true}}}, nil)
	allowed := 1
	s.reject = func(_, path string, _ map[string]any) int {
		if !strings.HasSuffix(path, "/eviction") {
			return 0
		}
		if allowed == 0 {
			return 429
		}
		allowed--
		return 0
	}
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e})
	p.Writes = []permit.Write{{Resource: pods, Evict: true, Labels: "tier=front"}}
	s.create(pods, "web-1", `{"metadata":{"labels":{"app":"web","tier":"front"}}}`)
	s.create(pods, "web-2", `{"metadata":{"labels":{"app":"web","tier":"front"}}}`)
	s.create(pods, "other", `{"metadata":{"labels":{"app":"web","tier":"back"}}}`)
	st := e.start(t, s, p)
	s.create(rates, "eur", `{}`)
	eventually(t, "one is gone", func() bool { return s.get(pods, "web-1") == nil || s.get(pods, "web-2") == nil })
	st.waitIdle(t)
	if stateIn(s.get(rates, "eur"))["h"].Digest != "" {
		t.Error("recorded before all was done")
	}
	st.expectEvents(t)
	s.clockOffset.Store(int64(evictionEventDelay))
	refused := []string{"eur EvictionRefused evict Pod town/web-2: a PodDisruptionBudget allows no more evictions now"}
	eventuallyOr(t, func() bool {
		st.SyncAll(queue.Cause{Kind: queue.HookChanged})
		return slices.Equal(st.eventLines(), refused)
	}, func() string { return fmt.Sprintf("got %q, want %q", st.eventLines(), refused) })
	s.create(pods, "web-3", `{"metadata":{"labels":{"app":"web","tier":"front"}}}`)
	s.set(func() { allowed = 5 })
	st.SyncAll(queue.Cause{Kind: queue.HookChanged})
	eventually(t, "recorded", func() bool { return stateIn(s.get(rates, "eur"))["h"].Digest != "" })
	if s.get(pods, "web-1") != nil || s.get(pods, "web-2") != nil || s.get(pods, "web-3") == nil || s.get(pods, "other") == nil {
		t.Errorf("left %v", s.objects)
	}
	st.expectCalls(t, "h create eur")
	st.expectEvents(t, refused...)
}

// A refused eviction sends an event even if the handler keeps requesting another call.
func TestRefusedEvictionEventOnRequeue(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", &hook.HandlerResponse{RetryAfter: time.Second, Delete: []hook.Deletion{{APIVersion: "v1", Kind: "Pod", Name: "web", Evict: true}}}, nil)
	s.reject = rejects(429, func(_, path string, _ map[string]any) bool {
		return strings.HasSuffix(path, "/eviction")
	})
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e})
	p.Writes = []permit.Write{{Resource: pods, Evict: true}}
	s.create(pods, "web", `{}`)
	st := e.start(t, s, p)
	s.create(rates, "eur", `{}`)
	for rounds := 0; len(st.eventLines()) == 0; rounds++ {
		if rounds > 20 {
			t.Fatal("no event")
		}
		st.waitIdle(t)
		calls := len(st.calledLines())
		s.clockOffset.Add(int64(2 * time.Second))
		st.SyncAll(queue.Cause{Kind: queue.HookChanged})
		eventually(t, "called again", func() bool { return len(st.calledLines()) > calls })
	}
	if want := "eur EvictionRefused "; !strings.HasPrefix(st.eventLines()[0], want) || len(st.calledLines()) < 2 {
		t.Errorf("got %q of %d calls, want %q", st.eventLines(), len(st.calledLines()), want)
	}
}

// An edit during a call loses nothing, and fields that no other client changed are written.
func TestEditDuringCall(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	var once atomic.Bool
	e.respond("h", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if once.CompareAndSwap(false, true) {
			s.edit(rates, "eur", `{"spec":{"n":2}}`)
		}
		var o struct{ Spec struct{ N int } }
		_ = json.Unmarshal(n.Object, &o)
		return &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"twice":` + text(2*o.Spec.N) + `}}`)}, nil
	})
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	eventually(t, "four", func() bool { return text(field(s.get(rates, "eur"), "spec", "twice")) == "4" })
	st.waitIdle(t)
	if got := st.calledLines(); len(got) != 2 || !strings.HasPrefix(got[1], "h update eur spec.n:1->2") {
		t.Errorf("got %q", got)
	}
}

func TestPause(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e}))
	s.create(rates, "eur", `{"metadata":{"annotations":{"setpoint.dev/paused":"true"}}}`)
	eventually(t, "paused", func() bool { return st.Health().Paused == 1 })
	st.expectCalls(t)
	s.edit(rates, "eur", `{"metadata":{"annotations":null}}`)
	st.expectCalls(t, "h create eur")
	if st.Health().Paused != 0 {
		t.Error("still paused")
	}
}

// A handler that requests another call gets it, and its response is written.
func TestRetryAfterInResponse(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	calls := 0
	e.respond("h", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
		calls++
		a := &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"step":` + text(calls) + `}}`)}
		if calls < 3 {
			a.RetryAfter = 10 * time.Millisecond
		}
		return a, nil
	})
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expectCalls(t, "h create eur", "h create eur", "h create eur")
	if text(field(s.get(rates, "eur"), "spec", "step")) != "3" || stateIn(s.get(rates, "eur"))["h"].Digest == "" {
		t.Errorf("left %s", text(s.get(rates, "eur")))
	}
}

// Handlers that undo each other's work are throttled, and an event is sent.
func TestConflictingHandlers(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	says := func(word string) func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
		return func(*hook.HandlerRequest) (*hook.HandlerResponse, error) {
			return &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"word":"` + word + `"}}`)}, nil
		}
	}
	e.respond("a", says("a"))
	e.respond("b", says("b"))
	on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
	watch := func(name string, not string) trigger.Handler {
		return trigger.Handler{Name: name, On: on, Do: e, When: func(_, now *object.Object) bool { return string(now.Field("spec", "word")) != `"`+not+`"` }}
	}
	st := e.start(t, s, program(watch("a", "a"), watch("b", "b")))
	s.create(rates, "eur", `{"spec":{"word":"x"}}`)
	eventually(t, "noticed", func() bool { return st.Health().Conflicting == 1 })
	n, since := len(st.calledLines()), time.Now()
	st.waitIdle(t)
	seconds := int(time.Since(since) / time.Second) // A throttled object runs once a second at most.
	if more := len(st.calledLines()) - n; more > 2+2*seconds {
		t.Errorf("still called, %d times in %d s", more, seconds)
	}
}

func TestPanicsAreRecovered(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.respond("h", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) { panic("oh no") })
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Backoff: 5 * time.Millisecond, Do: e}))
	s.create(rates, "eur", `{}`)
	eventually(t, "again", func() bool { return st.wasCalled("h create eur attempt 1") })
	e.respond("h", nil)
	eventually(t, "well", func() bool { return stateIn(s.get(rates, "eur"))["h"].Digest != "" })
	if got := st.eventLines(); len(got) == 0 || !strings.Contains(got[0], "oh no") {
		t.Errorf("got %q", got)
	}
}

func TestTimeout(t *testing.T) {
	s := newServer(t)
	hangs := hook.HandlerFunc(func(ctx context.Context, _ *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	st := newFakeHandler().start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Timeout: 5 * time.Millisecond, Do: hangs}))
	s.create(rates, "eur", `{}`)
	eventually(t, "event", func() bool { return len(st.eventLines()) > 0 && strings.Contains(st.eventLines()[0], "deadline") })
}

// RetryNow ends backoffs.
func TestRetryNow(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("h", nil, &hook.UnreachableError{Err: errors.New("no connection")})
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Backoff: time.Hour, Do: e}))
	s.create(rates, "eur", `{}`)
	s.create(rates, "usd", `{}`)
	eventually(t, "both fail", func() bool { return st.Health().Failing == 2 && st.Health().HookFailing == 2 })
	e.respond("h", nil)
	st.RetryNow()
	eventually(t, "both well", func() bool { return st.Health().Failing == 0 })
}

func TestDaemon(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	var running, started atomic.Int32
	daemon := func(ctx context.Context, _ *hook.HandlerRequest, existing trigger.Live) error {
		running.Add(1)
		defer running.Add(-1)
		switch started.Add(1) {
		case 1:
			return errors.New("not today")
		case 2:
			panic("nor today")
		}
		if _, err := existing.Respond(&hook.HandlerResponse{Status: json.RawMessage(`{"watched":true}`)}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	p := program(
		trigger.Handler{Name: "d", Daemon: daemon, Backoff: time.Millisecond,
			When: func(_, now *object.Object) bool { return now.Labels().Get("watch") == "yes" }},
		trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}, Fields: [][]string{{"status", "watched"}}, Do: e},
	)
	st := e.start(t, s, p)
	s.create(rates, "eur", `{"metadata":{"labels":{"watch":"yes"}}}`)
	st.expectCalls(t, "h update eur status:->{\"watched\":true}")
	if got := text(st.eventLines()); !strings.Contains(got, "not today") || !strings.Contains(got, "nor today") {
		t.Errorf("got %s", got)
	}
	s.edit(rates, "eur", `{"metadata":{"labels":{"watch":"no"}}}`)
	eventually(t, "stopped and released", func() bool {
		return running.Load() == 0 && !strings.Contains(text(s.get(rates, "eur")), finalizer)
	})
	s.edit(rates, "eur", `{"metadata":{"labels":{"watch":"yes"}}}`)
	eventually(t, "started again", func() bool { return running.Load() == 1 })
	s.drop(rates, "eur")
	eventually(t, "gone", func() bool { return s.get(rates, "eur") == nil })
	if running.Load() != 0 {
		t.Error("the object went before its daemon")
	}
	s.create(rates, "usd", `{"metadata":{"labels":{"watch":"yes"}}}`)
	eventually(t, "started", func() bool { return running.Load() == 1 })
	st.stop()
	if running.Load() != 0 {
		t.Error("the program ended before its daemon")
	}
}

// In a terminating namespace nothing can be created, and no deletion waits for that.
func TestTerminatingNamespace(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.answer("d", &hook.HandlerResponse{Apply: []hook.AppliedObject{{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"last-words"}}`)}}}, nil)
	s.terminating = true
	st := e.start(t, s, program(trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonDelete}, Do: e}))
	s.create(rates, "eur", `{}`)
	eventually(t, "held", func() bool { return strings.Contains(text(s.get(rates, "eur")), finalizer) })
	s.drop(rates, "eur")
	eventually(t, "gone", func() bool { return s.get(rates, "eur") == nil })
	st.expectCalls(t, "d delete eur")
}

// A copied object has the annotations of the original, but its handlers see it as new.
func TestCopiedObjectIsNew(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	st := e.start(t, s, program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	eventually(t, "recorded", func() bool { return stateIn(s.get(rates, "eur"))["h"].Digest != "" })
	annotations := text(field(s.get(rates, "eur"), "metadata", "annotations"))
	s.create(rates, "copy", `{"metadata":{"annotations":`+annotations+`},"spec":{"n":1}}`)
	st.expectCalls(t, "h create eur", "h create copy")
}

// An object that stops matching the selector of the watch is released, not deleted.
func TestObjectLeavesSelector(t *testing.T) {
	received := []hook.Reason{hook.ReasonEvent, hook.ReasonDelete}
	for name, optional := range map[string]bool{"held": false, "free": true} {
		t.Run(name, func(t *testing.T) {
			s, e := newServer(t), newFakeHandler()
			p := program(trigger.Handler{Name: "h", On: received, Optional: optional, Do: e})
			p.Fields = "spec.mode=on"
			st := e.start(t, s, p)
			s.create(rates, "eur", `{"spec":{"mode":"on"}}`)
			st.expectCalls(t, "h event eur")
			if held := strings.Contains(text(s.get(rates, "eur")), finalizer); held == optional {
				t.Errorf("held is %v", held)
			}
			s.edit(rates, "eur", `{"spec":{"mode":"off"}}`)
			eventually(t, "released", func() bool { return !strings.Contains(text(s.get(rates, "eur")), finalizer) })
			st.expectCalls(t, "h event eur")
		})
	}
}

// A condition that panics does not match, and the controller continues.
func TestWhenPanics(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	bad := trigger.Handler{Name: "bad", On: []hook.Reason{hook.ReasonCreate, hook.ReasonEvent, hook.ReasonDelete}, Optional: true, Do: e,
		When: func(_, now *object.Object) bool { panic("no such field") }}
	st := e.start(t, s, program(bad, trigger.Handler{Name: "good", On: []hook.Reason{hook.ReasonCreate}, Do: e}))
	s.create(rates, "eur", `{}`)
	st.expectCalls(t, "good create eur")
	s.drop(rates, "eur")
	st.expectCalls(t, "good create eur")
}

// An object whose Matches panics is not handled.
func TestMatchesPanics(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}, Do: e})
	p.Matches = func(o *object.Object) bool {
		if o.Name() == "bad" {
			panic("no such field")
		}
		return true
	}
	s.create(rates, "bad", `{}`)
	st := e.start(t, s, p)
	s.create(rates, "eur", `{}`)
	st.expectCalls(t, "h create eur")
}

// A new leadership does not trust the state of an earlier one.
func TestLeadershipChange(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume}
	st := &testEnv{server: s}
	e.env = st
	c := New(program(trigger.Handler{Name: "h", On: on, Do: e}), s.tools(st))
	st.Controller = c
	t.Cleanup(c.Close)
	end := lead(c)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	s.create(rates, "usd", `{"spec":{"n":1}}`)
	st.expectCallsInAnyOrder(t, "h create eur", "h create usd")
	end()
	s.edit(rates, "usd", `{"spec":{"n":2}}`)
	eventually(t, "seen", func() bool {
		return string(c.Get(queue.Key{Namespace: "town", Name: "usd"}).Field("spec", "n")) == "2"
	})
	st.lock.Lock()
	st.callLines = nil
	st.lock.Unlock()
	end = lead(c)
	st.expectCallsInAnyOrder(t, "h resume eur", "h update usd")
	end()
}
