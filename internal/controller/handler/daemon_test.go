package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// followSpec is a daemon that writes the spec.n that it last saw into the status.
func followSpec(ctx context.Context, n *hook.HandlerRequest, existing trigger.Live) error {
	for {
		o, err := object.Parse(n.Object)
		if err != nil {
			return err
		}
		response := &hook.HandlerResponse{Status: fmt.Appendf(nil, `{"seen":%s}`, o.Field("spec", "n"))}
		if _, err := existing.Respond(response); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-existing.Updates():
		}
		if n, err = existing.Current(); err != nil {
			return err
		}
	}
}

// Fault H6: a daemon sees the edits of its object.
func TestDaemonSeesEdits(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.start(t, s, program(trigger.Handler{Name: "d", Daemon: followSpec, Backoff: time.Hour}))
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	for n := 1; n < 4; n++ {
		want := fmt.Sprintf(`"seen":%d`, n)
		eventually(t, want, func() bool { return strings.Contains(text(s.get(rates, "eur")), want) })
		s.edit(rates, "eur", fmt.Sprintf(`{"spec":{"n":%d}}`, n+1))
	}
}

// Fault H6: a daemon does not overwrite changes of other clients that it has not seen. After a
// write of other fields, it has those changes.
func TestDaemonWriteConflict(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	turn, results := make(chan string), make(chan string)
	daemon := func(ctx context.Context, _ *hook.HandlerRequest, existing trigger.Live) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case patch := <-turn:
				n, err := existing.Respond(&hook.HandlerResponse{Patch: json.RawMessage(patch)})
				if err != nil {
					results <- err.Error()
					if !errors.Is(err, ErrDaemonConflict) {
						return err
					}
					n, err = existing.Current()
				}
				if err != nil {
					return err
				}
				var now struct{ Spec json.RawMessage }
				if err := json.Unmarshal(n.Object, &now); err != nil {
					return err
				}
				results <- string(now.Spec)
			}
		}
	}
	st := e.start(t, s, program(trigger.Handler{Name: "d", Daemon: daemon, Backoff: time.Hour}))
	s.create(rates, "eur", `{"spec":{"n":1,"m":1}}`)
	write := func(patch string, want ...string) {
		t.Helper()
		turn <- patch
		for _, one := range want {
			if got := <-results; got != one {
				t.Errorf("wrote %s: got %s, want %s", patch, got, one)
			}
		}
	}
	write(`{"spec":{"n":2}}`, `{"m":1,"n":2}`)
	s.edit(rates, "eur", `{"spec":{"m":100}}`)
	st.waitIdle(t)
	write(`{"spec":{"n":3}}`, `{"m":100,"n":3}`)
	s.edit(rates, "eur", `{"spec":{"n":100}}`)
	st.waitIdle(t)
	write(`{"spec":{"n":4}}`, "write town/eur: another client changed the same fields: spec.n", `{"m":100,"n":100}`)
	write(`{"spec":{"n":101}}`, `{"m":100,"n":101}`)
}

// Fault H6: a daemon that ignores its context delays a deletion for its StopTimeout. Then it
// is reported, and the object is deleted.
func TestDaemonStopTimeout(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	returns := make(chan struct{})
	daemon := func(context.Context, *hook.HandlerRequest, trigger.Live) error {
		<-returns
		return nil
	}
	st := e.start(t, s, program(trigger.Handler{Name: "d", Daemon: daemon, StopTimeout: time.Minute, Backoff: time.Millisecond,
		When: func(_, now *object.Object) bool { return now.Labels().Get("watch") != "no" }}))
	t.Cleanup(func() { close(returns) })
	stuck := func(event string) func() bool {
		return func() bool { return slices.Contains(st.eventLines(), event) }
	}
	s.create(rates, "eur", `{"status":{"conditions":[]}}`)
	s.create(rates, "usd", `{"status":{"conditions":[]}}`)
	held := func(name string) bool { return strings.Contains(text(s.get(rates, name)), finalizer) }
	eventually(t, "started", func() bool { return held("eur") && held("usd") })
	st.waitIdle(t)

	s.drop(rates, "eur")
	s.edit(rates, "usd", `{"metadata":{"labels":{"watch":"no"}}}`)
	st.waitIdle(t)
	if !held("eur") || !held("usd") {
		t.Fatal("gone before the timeout")
	}
	for _, name := range []string{"eur", "usd"} {
		next := st.Queue.Pending(queue.Key{Namespace: "town", Name: name}).Next
		if left := time.Until(next); left <= 0 || left > time.Minute {
			t.Errorf("%s is looked at again in %s", name, left)
		}
	}
	s.clockOffset.Add(int64(61 * time.Second))
	st.SyncAll(queue.Cause{Kind: queue.RequeueAfter})
	eventually(t, "an event", stuck("eur DaemonStuck daemon d has not returned within 1m0s after its context was cancelled: the object is deleted without it"))
	eventually(t, "gone", func() bool { return s.get(rates, "eur") == nil })
	eventually(t, "an event", stuck("usd DaemonStuck daemon d has not returned within 1m0s after its context was cancelled: it restarts only after it has returned"))
	eventually(t, "a condition", func() bool { return strings.Contains(text(s.get(rates, "usd")), "DaemonStuck") })
	s.edit(rates, "usd", `{"metadata":{"labels":{"watch":"yes"}}}`)
	st.waitIdle(t)
	if all := st.ObjectStates(); len(all) != 1 || !all[0].Failing {
		t.Errorf("cares %+v", all)
	}
}

// A daemon that has run long enough after a failure is healthy, and its next failure is the
// first again.
func TestDaemonRecovers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *server) {
		s.create(rates, "eur", `{"spec":{},"status":{"conditions":[]}}`)
		ends := make(chan struct{})
		x := startEnv(s, program(trigger.Handler{Name: "d", Backoff: time.Second, Retries: 2, Daemon: func(ctx context.Context, _ *hook.HandlerRequest, _ trigger.Live) error {
			select {
			case <-ends:
				return errors.New("lost")
			case <-ctx.Done():
				return nil
			}
		}}), s, nil)
		failing := func(step string, want int, handled string) {
			t.Helper()
			if got := x.Health().HookFailing; got != want {
				t.Errorf("%s: %d failing", step, got)
			}
			if now := text(s.get(rates, "eur")); !strings.Contains(now, `"status":"`+handled+`"`) {
				t.Errorf("%s: %s", step, now)
			}
		}
		pass(time.Second)
		for range 5 { // More than its retries.
			select {
			case ends <- struct{}{}:
			case <-time.After(time.Minute):
				t.Fatal("it was not started again")
			}
			pass(5 * time.Second)
			failing("after it failed", 1, "False")
			pass(daemonHealthyAfter)
			failing("after it ran for a while", 0, "True")
		}
	})
}

// daemonEnv is a controller with a daemon in another process, in a bubble.
type daemonEnv struct {
	*bubbleEnv
	*server

	t       *testing.T
	process *fakeProcess
}

// testDaemon runs a test with a daemon and one object.
func testDaemon(t *testing.T, h trigger.Handler, test func(e daemonEnv)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, p := newBubbleServer(t), newFakeProcess()
		h.Name = "d"
		x := startEnv(s, p.daemonProgram(h), s, nil)
		e := daemonEnv{x, s, t, p}
		pass(time.Second)
		s.create(rates, "eur", `{"spec":{"n":1},"status":{"conditions":[]}}`)
		e.expect("at the start", "eur Start", 1)
		test(e)
	})
}

// expect waits a moment and compares the calls since the last time.
func (e daemonEnv) expect(step, calls string, running int) {
	e.t.Helper()
	pass(10 * time.Millisecond)
	if got := e.process.takeCalls(); got != calls {
		e.t.Errorf("%s: calls %q, want %q", step, got, calls)
	}
	if got := e.process.running(); got != running {
		e.t.Errorf("%s: %d running, want %d", step, got, running)
	}
}

func (e daemonEnv) respond(f func(what hook.DaemonCall, n *hook.HandlerRequest) (*hook.HandlerResponse, error)) {
	e.process.set(func() { e.process.respond = f })
}

// respondOnce gives one response.
func (e daemonEnv) respondOnce(response *hook.HandlerResponse, err error) {
	e.respond(func(hook.DaemonCall, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		e.process.respond = nil
		return response, err
	})
}

func (e daemonEnv) stored() string { return text(e.get(rates, "eur")) }

func TestDaemonCalls(t *testing.T) {
	testDaemon(t, trigger.Handler{}, func(e daemonEnv) {
		pass(time.Hour)
		e.expect("while quiet", "", 1)
		e.edit(rates, "eur", `{"spec":{"n":2}}`)
		e.expect("after a change", "eur Update", 1)
		e.process.notify("eur", "usd")
		e.expect("after a notification", "eur Collect", 1)
		if !strings.Contains(e.stored(), finalizer) {
			e.t.Error("no finalizer")
		}
		e.drop(rates, "eur")
		e.expect("at the deletion", "eur Stop", 0)
		e.expectGone("eur")
	})
}

// Responses are written, and the process gets the object that is stored then.
func TestDaemonWrites(t *testing.T) {
	testDaemon(t, trigger.Handler{}, func(e daemonEnv) {
		e.respondOnce(&hook.HandlerResponse{Status: json.RawMessage(`{"rate":"1.1"}`), Events: []hook.Event{{Type: "Normal", Reason: "Set", Message: "rate"}}}, nil)
		e.process.notify("eur")
		e.expect("after a write", "eur Collect, eur Update", 1)
		if !strings.Contains(e.stored(), `"rate":"1.1"`) || !slices.Contains(e.eventLines(), "eur Set rate") {
			e.t.Errorf("stored %s, events %v", e.stored(), e.eventLines())
		}

		// A process that writes after each call does not keep the API server busy.
		n := 0
		e.respond(func(what hook.DaemonCall, _ *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			n++
			return &hook.HandlerResponse{Status: fmt.Appendf(nil, `{"n":%d}`, n)}, nil
		})
		e.process.notify("eur")
		pass(10 * time.Minute)
		if n < 5 || n > 20 {
			e.t.Errorf("%d calls", n)
		}
		e.respond(nil)
		pass(10 * time.Minute)
		e.process.takeCalls()

		// The end of the daemon is written too.
		e.respond(func(what hook.DaemonCall, _ *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			return &hook.HandlerResponse{Status: json.RawMessage(`{"rate":"stopped"}`), Finished: what == hook.DaemonStop}, nil
		})
		e.edit(rates, "eur", `{"metadata":{"finalizers":["example.org/hold","`+finalizer+`"]}}`)
		pass(time.Second)
		e.drop(rates, "eur")
		pass(time.Second)
		if got := e.stored(); !strings.Contains(got, `"rate":"stopped"`) || strings.Contains(got, finalizer) {
			e.t.Errorf("stored %s", got)
		}
	})
}

// A response that would overwrite what another client wrote meanwhile is not written, and the
// process gets the object as it is.
func TestDaemonCallConflict(t *testing.T) {
	testDaemon(t, trigger.Handler{}, func(e daemonEnv) {
		e.respond(func(what hook.DaemonCall, _ *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			e.process.respond = nil
			go e.edit(rates, "eur", `{"spec":{"n":100}}`)
			<-time.After(time.Second)
			return &hook.HandlerResponse{Patch: json.RawMessage(`{"spec":{"n":5}}`)}, nil
		})
		e.process.notify("eur")
		pass(2 * time.Second)
		if got := e.stored(); !strings.Contains(got, `"n":100`) {
			e.t.Errorf("stored %s", got)
		}
		if calls := e.process.takeCalls(); !strings.HasPrefix(calls, "eur Collect, eur Update") {
			e.t.Errorf("calls %s", calls)
		}
	})
}

// A write that the API server cannot make now is repeated, because the process does not repeat
// its response.
func TestDaemonWriteIsRetried(t *testing.T) {
	testDaemon(t, trigger.Handler{}, func(e daemonEnv) {
		e.set(func() {
			e.reject = func(string, string, map[string]any) int { return 429 }
		})
		e.respondOnce(&hook.HandlerResponse{Status: json.RawMessage(`{"rate":"1.1"}`)}, nil)
		e.process.notify("eur")
		pass(time.Minute)
		e.set(func() { e.reject = nil })
		pass(time.Minute)
		e.expect("after the write", "eur Collect, eur Update", 1)
		if !strings.Contains(e.stored(), `"rate":"1.1"`) {
			e.t.Errorf("stored %s", e.stored())
		}
	})
}

// An error restarts the daemon after its backoff or the delay it requests; after a permanent
// one it starts again when the process has connected anew.
func TestDaemonErrors(t *testing.T) {
	testDaemon(t, trigger.Handler{Backoff: 10 * time.Second}, func(e daemonEnv) {
		failing := func(want bool) {
			e.t.Helper()
			if got := e.Health().HookFailing > 0; got != want {
				e.t.Errorf("failing: %t", got)
			}
		}
		e.respondOnce(nil, errors.New("lost"))
		e.process.notify("eur")
		e.expect("after an error", "eur Collect", 0)
		failing(true)
		pass(15 * time.Second)
		e.expect("after the backoff", "eur Start", 1)
		e.respondOnce(nil, &hook.RetryAfterError{After: time.Minute, Err: errors.New("lost")})
		e.process.notify("eur")
		pass(50 * time.Second)
		e.expect("before the delay", "eur Collect", 0)
		pass(11 * time.Second)
		e.expect("after the delay", "eur Start", 1)
		pass(daemonHealthyAfter)
		failing(false)
		e.process.takeCalls() // The condition is a change of the object.

		e.respondOnce(&hook.HandlerResponse{Status: json.RawMessage(`{"rate":"broken"}`), Err: &hook.TerminalError{Err: errors.New("no such currency")}}, nil)
		e.process.notify("eur")
		pass(time.Hour)
		e.expect("after a permanent error", "eur Collect", 0)
		failing(true)
		if !strings.Contains(e.stored(), `"rate":"broken"`) {
			e.t.Errorf("what the response writes beside the error: %s", e.stored())
		}
		e.process.stop()
		e.process.start()
		pass(time.Minute)
		e.expect("in a new process", "eur Start", 1)
	})
}

// A daemon that has finished starts again only when the object has not matched for a while, or
// in a new process.
func TestDaemonFinishes(t *testing.T) {
	matches := func(_, now *object.Object) bool { return now.Labels().Get("watch") != "no" }
	testDaemon(t, trigger.Handler{When: matches}, func(e daemonEnv) {
		finish := func() {
			e.respondOnce(&hook.HandlerResponse{Finished: true}, nil)
			e.process.notify("eur")
			pass(time.Second)
			e.process.set(func() { clear(e.process.daemons) })
			e.expect("it finishes", "eur Collect", 0)
			e.edit(rates, "eur", `{"spec":{"n":7}}`)
			e.process.notify("eur")
			e.expect("finished", "", 0)
			e.edit(rates, "eur", `{"spec":{"n":8}}`)
		}
		finish()
		e.edit(rates, "eur", `{"metadata":{"labels":{"watch":"no"}}}`)
		e.expect("no match", "", 0)
		e.edit(rates, "eur", `{"metadata":{"labels":{"watch":"yes"}}}`)
		e.expect("match", "eur Start", 1)
		finish()
		e.process.stop()
		e.process.start()
		pass(time.Minute)
		e.expect("in a new process", "eur Start", 1)
		e.edit(rates, "eur", `{"metadata":{"labels":{"watch":"no"}}}`)
		e.expect("no match", "eur Stop", 0)
	})
}

// A new process does not know the daemons of the former one.
func TestDaemonProcessRestarts(t *testing.T) {
	testDaemon(t, trigger.Handler{}, func(e daemonEnv) {
		e.process.stop()
		pass(time.Minute)
		e.expect("while it does not run", "", 0)
		e.process.start()
		pass(time.Minute)
		e.expect("when it runs again", "eur Collect, eur Start", 1)

		// A change meanwhile fails; Start comes as soon as the stream is connected.
		e.process.stop()
		e.edit(rates, "eur", `{"spec":{"n":3}}`)
		pass(time.Second)
		if got := e.process.takeCalls(); !strings.HasPrefix(got, "eur Update") {
			e.t.Errorf("calls %s", got)
		}
		pass(5 * time.Minute)
		if e.Health().HookFailing != 1 || e.Health().StreamMessage == "" {
			e.t.Errorf("health %+v", e.Health())
		}
		e.process.start()
		pass(maxStreamDelay)
		e.process.takeCalls()
		e.expect("when it runs again", "", 1)

		// An object that is deleted while the process does not run waits, but not for ever.
		e.process.stop()
		e.edit(rates, "eur", `{"spec":{"n":4}}`)
		pass(time.Second)
		e.drop(rates, "eur")
		pass(DefaultStopTimeout - 5*time.Second)
		if e.get(rates, "eur") == nil {
			e.t.Error("deleted before the stop timeout")
		}
		pass(10 * time.Second)
		e.expectGone("eur")
		if events := strings.Join(e.eventLines(), "\n"); !strings.Contains(events, "eur DaemonStuck") {
			e.t.Errorf("events %s", events)
		}
	})
}

// maxStreamDelay is longer than the delay between connections.
const maxStreamDelay = 30 * time.Second

// A deletion waits for the end of the daemon. Setpoint calls again on each notification.
func TestDaemonStopsLater(t *testing.T) {
	testDaemon(t, trigger.Handler{StopTimeout: time.Minute}, func(e daemonEnv) {
		ended := false
		e.respond(func(what hook.DaemonCall, _ *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			return &hook.HandlerResponse{Finished: ended}, nil
		})
		e.drop(rates, "eur")
		pass(3500 * time.Millisecond)
		if got := strings.Count(e.process.takeCalls(), "eur Stop"); got != 4 {
			e.t.Errorf("%d calls", got)
		}
		e.process.set(func() { ended = true })
		e.process.notify("eur")
		pass(10 * time.Millisecond)
		e.expectGone("eur")
	})
}

// Setpoint stops all daemons when it stops, and does not wait for long.
func TestDaemonsStopWithSetpoint(t *testing.T) {
	for name, c := range map[string]struct {
		respond func(what hook.DaemonCall, n *hook.HandlerRequest) (*hook.HandlerResponse, error)
		want    time.Duration
	}{
		"at once": {nil, 0},
		"not": {func(hook.DaemonCall, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			return &hook.HandlerResponse{}, nil
		}, shutdownStopTimeout},
		"no calls": {func(hook.DaemonCall, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			return nil, errors.New("refused")
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			testDaemon(t, trigger.Handler{}, func(e daemonEnv) {
				e.respond(c.respond)
				start := time.Now()
				e.stop()
				if took := time.Since(start); took < c.want || took > c.want+time.Second {
					e.t.Errorf("it took %s", took)
				}
				if got := e.process.takeCalls(); !strings.HasPrefix(got, "eur Stop") {
					e.t.Errorf("calls %s", got)
				}
			})
		})
	}
}

// The concurrent calls of daemons are limited to the workers of the program.
func TestConcurrentDaemonCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newBubbleServer(t), newFakeProcess()
		const objects, workers = 50, 4
		for i := range objects {
			s.create(rates, fmt.Sprint("r", i), `{"spec":{}}`)
		}
		all := p.daemonProgram(trigger.Handler{Name: "d"})
		all.Workers = workers
		concurrent := make(chan struct{}, workers)
		all.Handlers[0].Do = hook.HandlerFunc(func(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			select {
			case concurrent <- struct{}{}:
			default:
				t.Error("too many calls at the same time")
			}
			<-time.After(time.Second)
			<-concurrent
			return p.handle(ctx, n)
		})
		startEnv(s, all, s, nil)
		pass(time.Minute)
		if p.running() != objects {
			t.Errorf("%d daemons", p.running())
		}
	})
}
