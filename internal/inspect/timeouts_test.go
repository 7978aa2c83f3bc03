package inspect

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// namedSource is a Source of which only the name is used.
type namedSource struct {
	Source
	name string
}

func (n *namedSource) Name() string { return n.name }

func TestQueryAll(t *testing.T) {
	well, asleep, broken := &namedSource{name: "well"}, &namedSource{name: "asleep"}, &namedSource{name: "broken"}
	p := NewTimeouts(10 * time.Millisecond)
	responses := QueryAll(t.Context(), p, []Source{asleep, broken, well}, func(ctx context.Context, s Source) (string, error) {
		switch s.Name() {
		case "asleep":
			<-ctx.Done()
			return "", ctx.Err()
		case "broken":
			return "", errors.New("broken")
		}
		return "all is well", nil
	})
	if err := responses[0].Err; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "asleep did not respond in time") {
		t.Errorf("asleep: %v", err)
	}
	if responses[1].Err == nil || responses[2].Value != "all is well" || responses[2].Err != nil || responses[2].Source != well {
		t.Errorf("%+v", responses)
	}
}

// Who gives up waiting says nothing of the process.
func TestCanceledCallerIsNotSlow(t *testing.T) {
	p := NewTimeouts(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &namedSource{name: "a"}
	_, err := QueryOne(ctx, p, s, func(ctx context.Context, _ Source) (int, error) { return 0, ctx.Err() })
	if !errors.Is(err, context.Canceled) || p.timeoutFor(s, time.Now()) != time.Minute {
		t.Errorf("%v, then %v", err, p.timeoutFor(s, time.Now()))
	}
}

func TestSlowProcessHasShortTimeout(t *testing.T) {
	p := NewTimeouts(5 * time.Second)
	a, b := &namedSource{name: "a"}, &namedSource{name: "b"}
	start := time.Now()
	p.noteSlow(a, true, start)
	p.noteSlow(a, true, start.Add(slowMemory-1))
	for _, test := range []struct {
		of   *namedSource
		at   time.Duration
		want time.Duration
	}{
		{a, 0, shortTimeout}, {b, 0, 5 * time.Second}, {a, slowMemory - 1, shortTimeout}, {a, slowMemory, 5 * time.Second},
	} {
		if got := p.timeoutFor(test.of, start.Add(test.at)); got != test.want {
			t.Errorf("%s after %v: %v", test.of.name, test.at, got)
		}
	}
	p.noteSlow(a, false, start)
	if got := p.timeoutFor(a, start); got != 5*time.Second {
		t.Errorf("once it answers: %v", got)
	}
	p.noteSlow(a, true, start)
	p.noteSlow(b, true, start.Add(time.Hour))
	if len(p.slow) != 1 {
		t.Errorf("%d are remembered for ever", len(p.slow))
	}
}
