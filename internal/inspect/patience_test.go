package inspect

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// named is a Source of which no more than the name is asked.
type named struct {
	Source
	name string
}

func (n *named) Name() string { return n.name }

func TestAskAll(t *testing.T) {
	well, asleep, broken := &named{name: "well"}, &named{name: "asleep"}, &named{name: "broken"}
	p := NewPatience(10 * time.Millisecond)
	answers := AskAll(t.Context(), p, []Source{asleep, broken, well}, func(ctx context.Context, s Source) (string, error) {
		switch s.Name() {
		case "asleep":
			<-ctx.Done()
			return "", ctx.Err()
		case "broken":
			return "", errors.New("broken")
		}
		return "all is well", nil
	})
	if err := answers[0].Err; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "asleep does not answer in time") {
		t.Errorf("asleep: %v", err)
	}
	if answers[1].Err == nil || answers[2].Value != "all is well" || answers[2].Err != nil || answers[2].Source != well {
		t.Errorf("%+v", answers)
	}
}

// Who gives up waiting says nothing of the process.
func TestWhoLeavesIsNotLate(t *testing.T) {
	p := NewPatience(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &named{name: "a"}
	_, err := AskOne(ctx, p, s, func(ctx context.Context, _ Source) (int, error) { return 0, ctx.Err() })
	if !errors.Is(err, context.Canceled) || p.limitOf(s, time.Now()) != time.Minute {
		t.Errorf("%v, then %v", err, p.limitOf(s, time.Now()))
	}
}

func TestPatienceIsShortWithTheLate(t *testing.T) {
	p := NewPatience(5 * time.Second)
	a, b := &named{name: "a"}, &named{name: "b"}
	start := time.Now()
	p.note(a, true, start)
	p.note(a, true, start.Add(rememberLate-1))
	for _, test := range []struct {
		of   *named
		at   time.Duration
		want time.Duration
	}{
		{a, 0, shortPatience}, {b, 0, 5 * time.Second}, {a, rememberLate - 1, shortPatience}, {a, rememberLate, 5 * time.Second},
	} {
		if got := p.limitOf(test.of, start.Add(test.at)); got != test.want {
			t.Errorf("%s after %v: %v", test.of.name, test.at, got)
		}
	}
	p.note(a, false, start)
	if got := p.limitOf(a, start); got != 5*time.Second {
		t.Errorf("once it answers: %v", got)
	}
	p.note(a, true, start)
	p.note(b, true, start.Add(time.Hour))
	if len(p.late) != 1 {
		t.Errorf("%d are remembered for ever", len(p.late))
	}
}
