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
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Objects are created or applied, also if the watch lags behind or does not cover them.
func TestCreateOrApply(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.respond("h", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		return &hook.HandlerResponse{Apply: []hook.AppliedObject{
			{Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"eur"},"data":{"reason":"` + string(n.Reason) + `"}}`)},
			{Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"unseen"}}`)},
		}}, nil
	})
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Do: e})
	p.Writes = []permit.Write{{Resource: pods, Apply: true}}
	requests := func() []string {
		var all []string
		for _, write := range s.wrote("") {
			if words := strings.Fields(write); !strings.HasPrefix(words[1], "rates/") {
				all = append(all, words[0]+" "+words[1])
			}
		}
		return all
	}
	st := e.start(t, s, p)
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	st.expectCalls(t, "h create eur")
	want := []string{"POST configmaps/eur", "PATCH pods/unseen"}
	if got := requests(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	s.edit(rates, "eur", `{"spec":{"n":2}}`)
	st.expectCalls(t, "h create eur", "h update eur spec.n:1->2")
	want = append(want, "PATCH configmaps/eur", "PATCH pods/unseen")
	if got := requests(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}

	// Another client creates an object of that name while the watch is down: it is not taken
	// over, and the name is used once it is free.
	s.drop(configMaps, "eur")
	eventually(t, "the watch knows that it is gone", func() bool {
		return len(slices.Concat(st.OwnedBy(st.Get(queue.Key{Namespace: "town", Name: "eur"}))...)) == 0
	})
	s.setReject(func(method, path string, _ map[string]any) int {
		if method == "POST" {
			s.reject = nil
			s.put(path, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "eur", "namespace": "town"}})
		}
		return 0
	})
	s.edit(rates, "eur", `{"spec":{"n":3}}`)
	const refusal = "eur WriteFailed handler h: apply ConfigMap town/eur: it already exists and has no owner; delete it or use another name"
	eventually(t, "event", func() bool { return slices.Contains(st.eventLines(), refusal) })
	if o := s.get(configMaps, "eur"); strings.Contains(text(o), `"data":`) || strings.Contains(text(o), "ownerReferences") {
		t.Errorf("taken: %s", text(o))
	}
	s.drop(configMaps, "eur")
	eventually(t, "made anew", func() bool {
		o := s.get(configMaps, "eur")
		return o != nil && field(o, "data", "reason") == "Update" && strings.Contains(text(o), "ownerReferences")
	})
}

// conditionalHandler is applicable to objects whose spec.on is true. It may fail.
type conditionalHandler struct {
	callLog
	fails bool
}

func (c *conditionalHandler) handle(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := fmt.Sprintf("%s %s", n.Reason, n.Name)
	if n.Attempt > 0 {
		line += fmt.Sprintf(" attempt %d since %s", n.Attempt, n.FirstAttempt.Format(time.TimeOnly))
	}
	c.lines = append(c.lines, line)
	if c.fails {
		return nil, errors.New("no idea")
	}
	return &hook.HandlerResponse{NotApplicable: !strings.Contains(string(n.Object), `"on":true`)}, nil
}

func (c *conditionalHandler) setFailing(fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = fails
}

func (c *conditionalHandler) expect(t *testing.T, want ...string) {
	t.Helper()
	pass(time.Second)
	c.callLog.expect(t, want...)
}

// finalizersOf returns the finalizers of an object; "[]" for none.
func finalizersOf(s *server) string {
	list, _ := field(s.get(rates, "eur"), "metadata", "finalizers").([]any)
	return fmt.Sprint(list)
}

func expectFinalizers(t *testing.T, s *server, want string) {
	t.Helper()
	if got := finalizersOf(s); got != want {
		t.Errorf("finalizers %s, want %s", got, want)
	}
}

// A handler that is not applicable is called again when the object changes, and nothing is
// recorded for it.
func TestNotApplicable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newBubbleServer(t), &conditionalHandler{}
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}, Fields: [][]string{{"spec"}}, Conditional: true})
		w := startEnv(s, p, s, map[string]handlerFunc{"h": c.handle})
		c.expect(t, "Create eur")
		pass(time.Hour)
		c.expect(t)
		s.expectWrites("PATCH", 0)
		s.edit(rates, "eur", `{"status":{"phase":"new"}}`) // Not watched, but its condition may be about it.
		c.expect(t, "Create eur")
		s.edit(rates, "eur", `{"metadata":{"annotations":{"setpoint.dev/reconcile-at":"now"}}}`)
		c.expect(t, "Create eur")
		s.edit(rates, "eur", `{"spec":{"on":true}}`)
		c.expect(t, "Create eur")
		s.edit(rates, "eur", `{"spec":{"on":false}}`)
		c.expect(t, "Update eur")
		w.stop()
		startEnv(s, p, s, map[string]handlerFunc{"h": c.handle})
		c.expect(t, "Update eur")
		s.edit(rates, "eur", `{"spec":{"n":2,"on":true}}`)
		c.expect(t, "Update eur")
		s.edit(rates, "eur", `{"status":{"phase":"old"}}`)
		c.expect(t)
	})
}

// A handler that is not applicable with one reason may be with the next.
func TestNotApplicableWithOneReason(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate, hook.ReasonResume}, Conditional: true})
		do := map[string]handlerFunc{"h": func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			return &hook.HandlerResponse{NotApplicable: n.Reason == hook.ReasonUpdate}, nil
		}}
		w := startEnv(s, p, s, do)
		pass(time.Second)
		w.stop()
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		w = startEnv(s, p, s, do)
		pass(time.Minute)
		var reasons []hook.Reason
		for _, c := range w.callsOf("h", "") {
			reasons = append(reasons, c.reason)
		}
		if !slices.Equal(reasons, []hook.Reason{hook.ReasonUpdate, hook.ReasonResume}) {
			t.Errorf("called for %v", reasons)
		}
	})
}

// A timer that is not applicable rests until the object changes.
func TestTimerNotApplicable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newBubbleServer(t), &conditionalHandler{}
		s.create(rates, "eur", `{"spec":{"on":true}}`)
		p := program(trigger.Handler{Name: "t", Every: time.Minute, FromFirstSeen: true, InitialDelay: 10 * time.Second, Conditional: true})
		startEnv(s, p, s, map[string]handlerFunc{"t": c.handle})
		pass(5 * time.Second)
		c.expect(t)
		pass(10 * time.Second)
		c.expect(t, "Timer eur")
		s.edit(rates, "eur", `{"spec":{"on":false}}`)
		pass(time.Minute)
		c.expect(t, "Timer eur")
		pass(time.Hour)
		c.expect(t)
		s.edit(rates, "eur", `{"spec":{"on":true}}`)
		pass(5 * time.Second)
		c.expect(t)
		pass(5 * time.Second)
		c.expect(t, "Timer eur")
	})
}

// The finalizer follows the condition of a Delete handler, which is called once per state.
func TestMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newBubbleServer(t), &conditionalHandler{}
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		p := program(trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonDelete}, Conditional: true, Backoff: time.Minute, MaxBackoff: time.Minute})
		do := map[string]handlerFunc{"d": c.handle}
		w := startEnv(s, p, s, do)
		c.expect(t, "Match eur")
		expectFinalizers(t, s, "[]")
		s.edit(rates, "eur", `{"spec":{"on":true}}`)
		c.expect(t, "Match eur")
		expectFinalizers(t, s, "[setpoint.dev/test]")
		c.setFailing(true)
		s.edit(rates, "eur", `{"spec":{"on":false}}`)
		c.expect(t, "Match eur")
		expectFinalizers(t, s, "[setpoint.dev/test]")
		w.stop() // Nothing is known after a restart.
		startEnv(s, p, s, do)
		since := time.Now().Format(time.TimeOnly)
		c.expect(t, "Match eur")
		c.setFailing(false)
		pass(80 * time.Second)
		c.expect(t, "Match eur attempt 1 since "+since)
		expectFinalizers(t, s, "[]")
		s.edit(rates, "eur", `{"spec":{"on":true}}`)
		c.expect(t, "Match eur")
		s.drop(rates, "eur")
		c.expect(t, "Delete eur")
		s.expectGone("eur")
	})
}

// A failing Match adds no finalizer and removes none of a former controller, and the handler is not called before it is known whether the
// object needs one.
func TestMatchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newBubbleServer(t), &conditionalHandler{fails: true}
		s.create(rates, "eur", `{"spec":{"on":true},"status":{"conditions":[]},"metadata":{"finalizers":["old/one"]}}`)
		p := program(trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonCreate, hook.ReasonDelete}, Conditional: true, Backoff: time.Minute, MaxBackoff: time.Minute}, trigger.Handler{Name: "other", On: []hook.Reason{hook.ReasonCreate}})
		p.ReplacedFinalizers = []string{"old/one"}
		w := startEnv(s, p, s, map[string]handlerFunc{"d": c.handle})
		since := time.Now().Format(time.TimeOnly)
		c.expect(t, "Match eur")
		w.expectCalls(t, "other", "", 1)
		if o := s.get(rates, "eur"); finalizersOf(s) != "[old/one]" || !strings.Contains(conditionsOf(o), "handler d: no idea") {
			t.Errorf("stored %s", text(o))
		}
		c.setFailing(false)
		w.RetryNow()
		c.expect(t, "Match eur attempt 1 since "+since, "Create eur")
		if o := s.get(rates, "eur"); finalizersOf(s) != "[setpoint.dev/test]" || strings.Contains(conditionsOf(o), "no idea") {
			t.Errorf("stored %s", text(o))
		}
	})
}

// An object that changes all the time does not call the process for each state.
func TestMatchIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newBubbleServer(t), &conditionalHandler{}
		s.create(rates, "eur", `{"spec":{"on":false}}`)
		startEnv(s, program(trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonDelete}, Conditional: true}), s, map[string]handlerFunc{"d": c.handle})
		for n := range 1000 {
			s.edit(rates, "eur", fmt.Sprintf(`{"status":{"n":%d}}`, n))
			pass(20 * time.Millisecond)
		}
		if n := len(c.take()); n < 50 || n > 400 {
			t.Errorf("%d calls for 1000 states in 20 s", n)
		}
		s.edit(rates, "eur", `{"spec":{"on":true}}`)
		pass(2 * time.Minute)
		expectFinalizers(t, s, "[setpoint.dev/test]")
	})
}

// An object in deletion needs no Match: the response to Delete releases it.
func TestDeleteNotApplicable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newBubbleServer(t), &conditionalHandler{}
		s.create(rates, "eur", `{"spec":{"on":false},"metadata":{"finalizers":["setpoint.dev/test"]}}`)
		s.drop(rates, "eur")
		startEnv(s, program(trigger.Handler{Name: "d", On: []hook.Reason{hook.ReasonDelete}, Conditional: true}), s, map[string]handlerFunc{"d": c.handle})
		c.expect(t, "Delete eur")
		s.expectGone("eur")
	})
}

// A daemon runs only where its handler is applicable, and goes on while that is not known.
func TestMatchOfDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newBubbleServer(t), &conditionalHandler{}
		s.create(rates, "eur", `{"spec":{"on":false}}`)
		var mu sync.Mutex
		running := 0
		add := func(n int) { mu.Lock(); defer mu.Unlock(); running += n }
		runs := func() int { mu.Lock(); defer mu.Unlock(); return running }
		p := program(trigger.Handler{Name: "w", Conditional: true, Do: hook.HandlerFunc(c.handle), Daemon: func(ctx context.Context, _ *hook.HandlerRequest, _ trigger.Live) error {
			add(1)
			defer add(-1)
			<-ctx.Done()
			return nil
		}})
		startEnv(s, p, s, nil)
		for _, step := range []struct {
			patch   string
			fails   bool
			running int
		}{{`{"spec":{"n":1}}`, false, 0}, {`{"spec":{"on":true}}`, false, 1}, {`{"spec":{"on":false}}`, true, 1}} {
			c.setFailing(step.fails)
			s.edit(rates, "eur", step.patch)
			pass(500 * time.Millisecond)
			if runs() != step.running {
				t.Errorf("%d daemons run after %s", runs(), step.patch)
			}
		}
		c.setFailing(false)
		pass(10 * time.Second)
		if runs() != 0 || finalizersOf(s) != "[]" {
			t.Errorf("%d daemons run in the end, finalizers %s", runs(), finalizersOf(s))
		}
	})
}

// Only conditional handlers may be inapplicable, and a Match writes nothing.
func TestUnsuitableResponses(t *testing.T) {
	n := &hook.HandlerRequest{Reason: hook.ReasonCreate}
	match := &hook.HandlerRequest{Reason: hook.ReasonMatch}
	event := &hook.HandlerRequest{Reason: hook.ReasonEvent}
	for name, c := range map[string]struct {
		h    trigger.Handler
		n    *hook.HandlerRequest
		a    hook.HandlerResponse
		want string
	}{
		"not conditional":     {trigger.Handler{}, n, hook.HandlerResponse{NotApplicable: true}, "applicable: the handler is not conditional"},
		"match with a status": {trigger.Handler{Conditional: true}, match, hook.HandlerResponse{Status: []byte(`{}`)}, "with the reason Match, a response has only applicable or an error"},
		"progress of events":  {trigger.Handler{}, event, hook.HandlerResponse{Progress: []byte(`{}`)}, "progress: not allowed with the reason Event"},
		"finished handler":    {trigger.Handler{}, n, hook.HandlerResponse{Finished: true}, "finished: only for the reason Daemon"},
		"much progress":       {trigger.Handler{}, n, hook.HandlerResponse{Progress: []byte(strings.Repeat(" ", 8193))}, "progress: must not exceed 8192 bytes, has 8193"},
		"apply beside error":  {trigger.Handler{}, n, hook.HandlerResponse{Apply: []hook.AppliedObject{{}}, Err: errors.New("no")}, "apply: not allowed with an error"},
	} {
		if err := permit.CheckResponse(&c.h, c.n, &c.a); !hook.IsMalformed(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
