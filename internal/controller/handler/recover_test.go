package handler

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Fault H4: runtime.Goexit, which t.FailNow calls, ended a worker for each object, until none
// was left.
func TestGoexitKeepsWorker(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	e.respond("c", func(n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if strings.HasPrefix(n.Name, "bad") {
			runtime.Goexit()
		}
		return &hook.HandlerResponse{}, nil
	})
	e.respond("t", func(*hook.HandlerRequest) (*hook.HandlerResponse, error) { new(testing.T).FailNow(); return nil, nil })
	p := program(
		Handler{Name: "c", On: []hook.Reason{hook.ReasonCreate}, Backoff: time.Hour, Do: e},
		Handler{Name: "t", Every: 10 * time.Millisecond, Do: e, When: isNamed("bad-0")},
		Handler{Name: "w", On: []hook.Reason{hook.ReasonCreate}, Do: e, When: func(_, _ *object.Object) bool { runtime.Goexit(); return true }},
	)
	p.Workers = 2
	st := e.start(t, s, p)
	for i := range 5 {
		s.create(rates, fmt.Sprint("bad-", i), `{}`)
	}
	eventually(t, "the timer twice", func() bool { return st.wasCalled("t timer bad-0 attempt 1") })
	s.create(rates, "good", `{}`)
	eventually(t, "handled", func() bool { return stateIn(s.get(rates, "good"))["c"].Digest != "" })
	want := "bad-4 HandlerFailed handler c: the handler called runtime.Goexit, as t.FailNow does: return an error instead"
	eventuallyOr(t, func() bool { return strings.Contains(text(st.eventLines()), want) }, func() string { return text(st.eventLines()) })
	for _, line := range st.calledLines() {
		if strings.HasPrefix(line, "w ") {
			t.Errorf("a condition that ended is taken for met: %s", line)
		}
	}
}

// Fault H4: a daemon that ended its goroutine counted as running forever.
func TestDaemonGoexit(t *testing.T) {
	s, e := newServer(t), newFakeHandler()
	var starts atomic.Int32
	st := e.start(t, s, program(Handler{Name: "d", Backoff: time.Millisecond,
		Daemon: func(ctx context.Context, _ *hook.HandlerRequest, _ *Live) error {
			if starts.Add(1) < 3 {
				runtime.Goexit()
			}
			<-ctx.Done()
			return nil
		}}))
	s.create(rates, "eur", `{}`)
	eventually(t, "started again", func() bool { return starts.Load() == 3 })
	if received := text(st.eventLines()); !strings.Contains(received, "daemon d: the daemon called runtime.Goexit") {
		t.Errorf("got %s", received)
	}
	s.drop(rates, "eur")
	eventually(t, "gone", func() bool { return s.get(rates, "eur") == nil })
}

func isNamed(name string) func(old, now *object.Object) bool {
	return func(_, now *object.Object) bool { return now.Name() == name }
}
