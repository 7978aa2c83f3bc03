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
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// followSpec is a daemon that writes the spec.n that it last saw into the status.
func followSpec(ctx context.Context, n *hook.HandlerRequest, existing *Live) error {
	for {
		o, err := object.Parse(n.Object)
		if err != nil {
			return err
		}
		response := &hook.HandlerResponse{Status: fmt.Appendf(nil, `{"seen":%s}`, o.Field("spec", "n"))}
		if _, err := existing.Write(response); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-existing.Changed():
		}
		if n, err = existing.Get(); err != nil {
			return err
		}
	}
}

// Fault H6: a daemon sees the edits of its object.
func TestDaemonSeesEdits(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.start(t, s, program(Handler{Name: "d", Daemon: followSpec, Backoff: time.Hour}))
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
	daemon := func(ctx context.Context, _ *hook.HandlerRequest, existing *Live) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case patch := <-turn:
				n, err := existing.Write(&hook.HandlerResponse{Patch: json.RawMessage(patch)})
				if err != nil {
					results <- err.Error()
					if !errors.Is(err, ErrConflict) {
						return err
					}
					n, err = existing.Get()
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
	st := e.start(t, s, program(Handler{Name: "d", Daemon: daemon, Backoff: time.Hour}))
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

func TestConflictingFields(t *testing.T) {
	const seen = `{"a":{"b":1,"c":1},"list":[1],"text":"x"}`
	for _, c := range []struct{ patch, now, want string }{
		{`{"a":{"b":2}}`, `{"a":{"b":1,"c":2},"list":[1],"text":"x"}`, ""},
		{`{"a":{"b":2}}`, `{"a":{"b":3,"c":1},"list":[1],"text":"x"}`, "spec.a.b"},
		{`{"a":{"b":3}}`, `{"a":{"b":3,"c":1},"list":[1],"text":"x"}`, ""},
		{`{"a":{"b":2}}`, `{"list":[1],"text":"x"}`, "spec.a.b"},
		{`{"a":{"b":2}}`, `{"a":7,"list":[1],"text":"x"}`, "spec.a"},
		{`{"a":null}`, `{"a":{"b":1,"c":2},"list":[1],"text":"x"}`, "spec.a"},
		{`{"list":[1,2],"text":"y"}`, `{"a":{"b":1,"c":1},"list":[3],"text":"z"}`, "spec.list spec.text"},
		{`{"new":{"x":1}}`, `{"a":{"b":1,"c":1},"list":[1],"text":"x","new":{"y":1}}`, ""},
	} {
		of := func(spec string) *object.Object {
			o, err := object.Parse([]byte(`{"apiVersion":"v1","kind":"Rate","metadata":{"name":"eur"},"spec":` + spec + `}`))
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		got := conflictingFields(&hook.HandlerResponse{Patch: json.RawMessage(`{"spec":` + c.patch + `}`)}, of(seen), of(c.now), true)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s on %s: %v, want %s", c.patch, c.now, got, c.want)
		}
	}
}

// Fault H6: a daemon that ignores its context delays a deletion for its StopTimeout. Then it
// is reported, and the object is deleted.
func TestDaemonStopTimeout(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	returns := make(chan struct{})
	daemon := func(context.Context, *hook.HandlerRequest, *Live) error {
		<-returns
		return nil
	}
	st := e.start(t, s, program(Handler{Name: "d", Daemon: daemon, StopTimeout: time.Minute, Backoff: time.Millisecond,
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
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		s.create(rates, "eur", `{"spec":{},"status":{"conditions":[]}}`)
		ends := make(chan struct{})
		x := startEnv(s, program(Handler{Name: "d", Backoff: time.Second, Retries: 2, Daemon: func(ctx context.Context, _ *hook.HandlerRequest, _ *Live) error {
			select {
			case <-ends:
				return errors.New("lost")
			case <-ctx.Done():
				return nil
			}
		}}), s, nil)
		defer x.stop()
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
