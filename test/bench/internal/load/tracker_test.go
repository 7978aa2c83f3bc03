package load

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

var small = Work{Parents: 2, Children: 2, Round: "a"}

// done shows a tracker all objects of a work, done.
func done(t *Tracker, w Work, at time.Time) {
	for i := range w.Parents {
		parent := thing.Name(i)
		t.See(Observation{Name: parent, UID: "uid-" + parent, Ready: w.Children, Value: w.Value(i)}, at)
		for j := range w.Children {
			t.See(Observation{Name: thing.ChildName(parent, j), Child: true, Value: w.Value(i)}, at)
		}
	}
}

// reached says whether a tracker has been waited for long enough.
func reached(t *testing.T, tracker *Tracker) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	select {
	case <-tracker.reached:
		must.Succeed(t, tracker.Wait(t.Context()))
		return true
	default:
		if err := tracker.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting in vain: %v", err)
		}
		return false
	}
}

func TestReachedWhenAllMatch(t *testing.T) {
	var tracker Tracker
	tracker.Expect(Goal{Work: small})
	at := time.Now()
	tracker.See(Observation{Name: "kube-root-ca.crt", Child: true}, at)
	done(&tracker, small, at)
	if !reached(t, &tracker) || !tracker.ReachedAt().Equal(at) {
		t.Errorf("not reached at %v: %v", at, tracker.Check())
	}
	if got, err := tracker.UID(1); err != nil || got != "uid-thing-00001" {
		t.Errorf("UID %q, %v", got, err)
	}
}

func TestNextRoundAndGone(t *testing.T) {
	var tracker Tracker
	tracker.Expect(Goal{Work: small})
	done(&tracker, small, time.Now())

	next := small
	next.Round = "b"
	tracker.Expect(Goal{Work: next})
	if reached(t, &tracker) {
		t.Error("the old values count for the new round")
	}
	done(&tracker, next, time.Now())
	if !reached(t, &tracker) {
		t.Error(tracker.Check())
	}

	tracker.Expect(Goal{Work: next, Gone: true})
	for i := range next.Parents {
		if reached(t, &tracker) {
			t.Error("gone while objects are there")
		}
		tracker.See(Observation{Name: thing.Name(i), Gone: true}, time.Now())
		for j := range next.Children {
			tracker.See(Observation{Name: thing.ChildName(thing.Name(i), j), Child: true, Gone: true}, time.Now())
		}
	}
	if !reached(t, &tracker) {
		t.Error(tracker.Check())
	}
}

func TestReachedAt(t *testing.T) {
	var tracker Tracker
	tracker.Expect(Goal{Work: small})
	first := time.Now()
	done(&tracker, small, first)
	child := Observation{Name: thing.ChildName(thing.Name(0), 0), Child: true, Gone: true}
	tracker.See(child, first.Add(time.Second))
	if tracker.Check() == nil {
		t.Error("nothing wrong after a child has gone")
	}
	child.Gone, child.Value = false, small.Value(0)
	tracker.See(child, first.Add(2*time.Second))
	if got := tracker.ReachedAt(); !got.Equal(first.Add(2 * time.Second)) {
		t.Errorf("reached at %v after the start", got.Sub(first))
	}
}

func TestMismatches(t *testing.T) {
	tests := map[string]struct {
		see  Observation
		want string
	}{
		"missing":    {Observation{Name: thing.Name(0), Gone: true}, "thing-00000 does not exist"},
		"old child":  {Observation{Name: "thing-00001-1", Child: true, Value: "old"}, `child thing-00001-1 holds "old", want "a-1"`},
		"bad status": {Observation{Name: thing.Name(1), Ready: 1, Value: "a-1"}, `parent thing-00001 has status {ready: 1, value: "a-1"}, want {ready: 2, value: "a-1"}`},
		"stranger":   {Observation{Name: "thing-00001-2", Child: true}, "child thing-00001-2 is not wanted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var tracker Tracker
			tracker.Expect(Goal{Work: small})
			done(&tracker, small, time.Now())
			tracker.See(test.see, time.Now())
			if err := tracker.Check(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if test.see.Gone = true; name == "stranger" {
				tracker.See(test.see, time.Now())
				if err := tracker.Check(); err != nil {
					t.Errorf("after the stranger went: %v", err)
				}
			}
		})
	}
}

func TestBrokenWatchEndsWait(t *testing.T) {
	broken := errors.New("watch ended")
	var tracker Tracker
	tracker.Expect(Goal{Work: small})
	tracker.Fail(broken)
	if err := tracker.Wait(t.Context()); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	tracker.Expect(Goal{Work: small})
	if err := tracker.Wait(t.Context()); !errors.Is(err, broken) {
		t.Errorf("for the next goal: %v", err)
	}
}

func TestEach(t *testing.T) {
	seen := make([]int, 100)
	err := Each(t.Context(), len(seen), 8, func(_ context.Context, i int) error {
		seen[i]++
		return nil
	})
	for i, times := range seen {
		if times != 1 {
			t.Errorf("%d was done %d times", i, times)
		}
	}
	if err != nil {
		t.Error(err)
	}
	refused := errors.New("refused")
	err = Each(t.Context(), 100, 2, func(context.Context, int) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

func TestObservation(t *testing.T) {
	tests := map[string]struct {
		body string
		gone bool
		want Observation
	}{
		"parent": {
			body: `{"kind":"Thing","metadata":{"name":"thing-00000","uid":"u"},"spec":{"value":"a"},"status":{"ready":1,"value":"b"}}`,
			want: Observation{Name: "thing-00000", UID: "u", Wanted: "a", Value: "b", Ready: 1},
		},
		"child": {
			body: `{"kind":"ConfigMap","metadata":{"name":"thing-00000-0"},"data":{"value":"c"}}`,
			gone: true,
			want: Observation{Name: "thing-00000-0", Child: true, Gone: true, Value: "c"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var seen object
			must.Succeed(t, json.Unmarshal([]byte(test.body), &seen))
			if got := observation(&seen, test.gone); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
