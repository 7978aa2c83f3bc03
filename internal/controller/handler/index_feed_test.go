package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/index"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// indexProgram returns a program whose process has an index, and a handler.
func (p *fakeProcess) indexProgram(h trigger.Handler) Program {
	made := program(h)
	made.Backend = p.backend()
	made.Backend.Index = p.feed
	return made
}

// indexed returns spec.n of an object in the index, "" if there is none.
func (p *fakeProcess) indexed(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.index[name]; o != nil {
		return string(o.Field("spec", "n"))
	}
	return ""
}

func (p *fakeProcess) expectRequests(t *testing.T, step string, want ...string) {
	t.Helper()
	pass(10 * time.Millisecond)
	if got := p.takeRequests(); !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", step, got, want)
	}
}

// The index has all objects before the first call, and each change before the calls for it,
// also those that an earlier handler wrote.
func TestIndexComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newBubbleServer(t), newFakeProcess()
		const objects = 1201
		for i := range objects {
			s.create(rates, fmt.Sprint("r", i), `{"spec":{"n":1}}`)
		}
		writes := answers(&hook.HandlerResponse{Patch: []byte(`{"spec":{"seen":true}}`)}, nil)
		looks := func(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			o, err := object.Parse(n.Object)
			if err != nil {
				return nil, err
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			has := p.index[n.Name]
			if len(p.index) != objects || has == nil || !bytes.Equal(has.Field("spec"), o.Field("spec")) {
				t.Errorf("%s %s: the index has %d objects, and of this one: %v", n.Name, n.Reason, len(p.index), has)
			}
			return &hook.HandlerResponse{}, nil
		}
		on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
		made := p.indexProgram(trigger.Handler{Name: "writes", On: on})
		made.Handlers = append(made.Handlers, trigger.Handler{Name: "looks", On: on})
		x := startEnv(s, made, s, map[string]handlerFunc{"writes": writes, "looks": looks})
		pass(time.Minute)
		if got := p.takeRequests(); !slices.Equal(got[:3], []string{"first 500 -0", "500 -0", "201 -0 complete"}) {
			t.Errorf("the list: %q", got[:3])
		}
		x.expectCalls(t, "looks", "", objects)
		for i := range 300 {
			s.edit(rates, fmt.Sprint("r", i), `{"spec":{"n":2}}`)
		}
		pass(time.Second)
		if got := x.callsOf("looks", "r7"); len(got) < 2 || p.indexed("r7") != "2" {
			t.Errorf("calls %v, index %s", got, p.indexed("r7"))
		}
	})
}

// A change is on its way to the index before a worker can see the object in the queue. The feed's own
// watches may deliver it later.
func TestChangesCloseTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newBubbleServer(t), newFakeProcess()
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		made := p.indexProgram(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonUpdate}})
		blocked := make(chan struct{})
		made.Backend.Index = func(ctx context.Context, q *hook.IndexRequest) error {
			if !q.First {
				<-blocked
			}
			return p.feed(ctx, q)
		}
		x := startEnv(s, made, s, nil)
		pass(time.Second)
		old := x.Objects()[0]
		changed := object.DecodeOrEmpty(old.JSON())
		changed["spec"], changed["metadata"].(map[string]any)["resourceVersion"] = map[string]any{"n": 2}, "999"
		now := must.Get(object.Encode(changed)).In(t)
		key := controller.KeyOf(old)
		for range 2 { // As two watches deliver it.
			x.objectChanged(cache.Event{Old: old, New: now})
		}
		if x.gate.IsOpen(key) {
			t.Error("calls before the change is in the index")
		}
		close(blocked)
		p.expectRequests(t, "the change", "first 1 -0 complete", "1 -0 complete")
		if !x.gate.IsOpen(key) {
			t.Error("no calls after that")
		}
	})
}

// Changes are deletions, new objects, and objects that begin or stop to match.
func TestIndexOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newBubbleServer(t), newFakeProcess()
		made := p.indexProgram(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonEvent}})
		made.Matches = func(o *object.Object) bool { return o.Labels().Get("watch") != "no" }
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		s.create(rates, "usd", `{"spec":{"n":1},"metadata":{"labels":{"watch":"no"}}}`)
		startEnv(s, made, s, nil)
		p.expectRequests(t, "the list", "first 1 -0 complete")
		s.create(rates, "chf", `{"spec":{"n":1}}`)
		p.expectRequests(t, "a new object", "1 -0 complete")
		s.edit(rates, "usd", `{"metadata":{"labels":{"watch":null}}}`)
		p.expectRequests(t, "one that begins to match", "1 -0 complete")
		s.edit(rates, "eur", `{"metadata":{"labels":{"watch":"no"}}}`)
		p.expectRequests(t, "one that stops to match", "0 -1 complete")
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		p.expectRequests(t, "a change of another object")
		s.drop(rates, "usd")
		s.create(rates, "usd", `{"spec":{"n":3}}`)
		pass(time.Second)
		if got := strings.Join(p.takeRequests(), ", "); got != "1 -1 complete" && got != "0 -1 complete, 1 -0 complete" {
			t.Errorf("another object of the same name: %s", got)
		}
		s.drop(rates, "chf")
		p.expectRequests(t, "a deletion", "0 -1 complete")
		if p.indexed("eur") != "" || p.indexed("usd") != "3" || p.indexed("chf") != "" {
			t.Errorf("index %v", p.index)
		}
	})
}

// Handlers of all controllers of the process wait for the index, and users see why.
func TestCallsWaitForIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newBubbleServer(t), newFakeProcess()
		on := []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate}
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		var failing atomic.Bool
		failing.Store(true)
		made := p.indexProgram(trigger.Handler{Name: "a", On: on})
		made.Backend.Index = func(ctx context.Context, q *hook.IndexRequest) error {
			if failing.Load() {
				return errors.New("no memory")
			}
			return p.feed(ctx, q)
		}
		other := program(trigger.Handler{Name: "b", On: on})
		other.Name, other.Record.Annotation, other.Finalizer = "other", "setpoint.dev/handled-by-other", "setpoint.dev/other"
		other.Backend = p.backend()
		x := startEnv(s, made, s, nil)
		y := startEnv(s, other, s, nil)
		pass(time.Minute)
		if len(x.callsOf("a", ""))+len(y.callsOf("b", "")) > 0 {
			t.Error("calls without the index")
		}
		const want = "waiting objects: 1; the index of " // And the name.
		for _, h := range []string{x.Health().IndexMessage, y.Health().IndexMessage} {
			if !strings.HasPrefix(h, want) || !strings.HasSuffix(h, "is not complete: no memory") {
				t.Errorf("message %q", h)
			}
		}
		failing.Store(false)
		pass(2 * time.Minute)
		if len(x.callsOf("a", "")) != 1 || len(y.callsOf("b", "")) != 1 {
			t.Errorf("calls %v and %v", x.callsOf("a", ""), y.callsOf("b", ""))
		}
		if x.Health().IndexMessage+y.Health().IndexMessage != "" {
			t.Errorf("health %+v", x.Health())
		}

		// Without its index, a controller no longer holds up others.
		p.stop()
		pass(time.Second)
		failing.Store(true)
		p.start()
		pass(time.Minute)
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		pass(time.Minute)
		y.expectCalls(t, "b", "", 1)
		x.stop()
		pass(time.Minute)
		y.expectCalls(t, "b", "", 2)
	})
}

// A list that fails goes on where it failed, begins again if the process rejects it or is a new
// one, and has what changed meanwhile.
func TestIndexRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newBubbleServer(t), newFakeProcess()
		const objects = 1100
		for i := range objects {
			s.create(rates, fmt.Sprint("r", i), `{"spec":{"n":1}}`)
		}
		made := p.indexProgram(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}})
		fails := make(chan error, 3)
		fails <- nil
		fails <- errors.New("busy")
		fails <- errors.New("busy")
		made.Backend.Index = func(ctx context.Context, q *hook.IndexRequest) error {
			select {
			case err := <-fails:
				if err != nil {
					return err
				}
			default:
			}
			return p.feed(ctx, q)
		}
		x := startEnv(s, made, s, nil)
		pass(time.Minute)
		p.expectRequests(t, "it goes on", "first 500 -0", "500 -0", "100 -0 complete")
		x.expectCalls(t, "h", "", objects)

		p.stop()
		s.edit(rates, "r1", `{"spec":{"n":2}}`)
		s.drop(rates, "r2")
		pass(time.Minute)
		p.start()
		pass(time.Minute)
		got := p.takeRequests()
		if list := []string{"first 500 -0", "500 -0", "99 -0 complete"}; len(got) < 3 || !slices.Equal(got[len(got)-3:], list) {
			t.Errorf("a new process: %q", got)
		}
		if p.indexed("r1") != "2" || p.indexed("r2") != "" || p.indexed("r3") != "1" {
			t.Error("the index of the new process is not complete")
		}

		fails <- rejected(404)
		s.edit(rates, "r1", `{"spec":{"n":3}}`)
		pass(time.Minute)
		p.expectRequests(t, "a process without this index", "first 500 -0", "500 -0", "99 -0 complete")
		fails <- &hook.RetryAfterError{After: time.Minute, Err: rejected(429)}
		s.edit(rates, "r1", `{"spec":{"n":4}}`)
		pass(59 * time.Second)
		p.expectRequests(t, "a busy process")
		pass(time.Minute)
		p.expectRequests(t, "a process that was busy", "1 -0 complete")
	})
}

// The objects of one call are limited by their size too.
func TestSizeOfIndexRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newBubbleServer(t), newFakeProcess()
		const objects = 20
		for i := range objects {
			s.create(rates, fmt.Sprint("r", i), `{"spec":{"n":1,"text":"`+strings.Repeat("x", index.MaxBytes/8)+`"}}`)
		}
		startEnv(s, p.indexProgram(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}}), s, nil)
		p.expectRequests(t, "the list", "first 8 -0", "8 -0", "4 -0 complete")
	})
}

// A process without notifications gets the index at the start.
func TestIndexWithoutNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newBubbleServer(t), newFakeProcess()
		made := p.indexProgram(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate}})
		made.Backend.Notifications = nil
		x := startEnv(s, made, s, nil)
		p.expectRequests(t, "an empty list", "first 0 -0 complete")
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		p.expectRequests(t, "a change", "1 -0 complete")
		x.expectCalls(t, "h", "eur", 1)
	})
}
