package react

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

// Fault H4: runtime.Goexit, which t.FailNow calls, ended a worker for each object, until
// there was none left.
func TestGoexitEndsNoWorker(t *testing.T) {
	s, e := newServer(t), newEar()
	e.answers("c", func(n *hook.Notice) (*hook.Answer, error) {
		if strings.HasPrefix(n.Name, "bad") {
			runtime.Goexit()
		}
		return &hook.Answer{}, nil
	})
	e.answers("t", func(*hook.Notice) (*hook.Answer, error) { new(testing.T).FailNow(); return nil, nil })
	p := program(
		Handler{Name: "c", On: []hook.Reason{hook.ReasonCreate}, Backoff: time.Hour, Do: e},
		Handler{Name: "t", Every: 10 * time.Millisecond, Do: e, When: isNamed("bad-0")},
		Handler{Name: "w", On: []hook.Reason{hook.ReasonCreate}, Do: e, When: func(_, _ *object.Object) bool { runtime.Goexit(); return true }},
	)
	p.Workers = 2
	st := e.play(t, s, p)
	for i := range 5 {
		s.create(rates, fmt.Sprint("bad-", i), `{}`)
	}
	eventually(t, "the timer twice", func() bool { return st.heardOf("t timer bad-0 attempt 1") })
	s.create(rates, "good", `{}`)
	eventually(t, "handled", func() bool { return recordIn(s.get(rates, "good"))["c"].Seen != "" })
	want := "bad-4 HandlerFailed handler c: the handler called runtime.Goexit, as t.FailNow does: return an error instead"
	eventuallyOr(t, func() bool { return strings.Contains(text(st.told()), want) }, func() string { return text(st.told()) })
	for _, line := range st.lines() {
		if strings.HasPrefix(line, "w ") {
			t.Errorf("a condition that ended is taken for met: %s", line)
		}
	}
}

// Fault H4: a daemon that ended its goroutine was taken to be at work for ever.
func TestGoexitOfADaemonIsItsError(t *testing.T) {
	s, e := newServer(t), newEar()
	var starts atomic.Int32
	st := e.play(t, s, program(Handler{Name: "d", Backoff: time.Millisecond,
		Daemon: func(ctx context.Context, _ *hook.Notice, _ *Live) error {
			if starts.Add(1) < 3 {
				runtime.Goexit()
			}
			<-ctx.Done()
			return nil
		}}))
	s.create(rates, "eur", `{}`)
	eventually(t, "started again", func() bool { return starts.Load() == 3 })
	if told := text(st.told()); !strings.Contains(told, "daemon d: the daemon called runtime.Goexit") {
		t.Errorf("told %s", told)
	}
	s.drop(rates, "eur")
	eventually(t, "gone", func() bool { return s.get(rates, "eur") == nil })
}

func isNamed(name string) func(old, now *object.Object) bool {
	return func(_, now *object.Object) bool { return now.Name() == name }
}
