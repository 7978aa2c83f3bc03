package compose

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// The counts are those of the memories, however parents come, go, fail and recover.
func TestMemoriesCount(t *testing.T) {
	seeded(t, 50, func(t *testing.T, r *rand.Rand) {
		m := newMemories()
		for range 100 {
			key := queue.Key{Namespace: "town", Name: pick(r, "a", "b", "c", "d")}
			if r.IntN(5) == 0 {
				m.drop(key)
				continue
			}
			failing := r.IntN(2) == 0
			now := runResult{failing: failing, hookFailing: failing && r.IntN(2) == 0}
			m.record(m.get(key, pick(r, "u-1", "u-2")), r.IntN(5), now, nil)
		}
		children, failing, ofHook := 0, 0, 0
		for _, one := range m.byKey {
			children += one.children
			failing += count(one.result.failing)
			ofHook += count(one.result.hookFailing)
		}
		if m.children != children || m.failing != failing || m.hookFailing != ofHook {
			t.Errorf("the sums are %d, %d, %d; want %d, %d, %d", m.children, m.failing, m.hookFailing, children, failing, ofHook)
		}
	})
}

func TestMemoryIsPerUID(t *testing.T) {
	m, key := newMemories(), queue.Key{Name: "p"}
	first := m.get(key, "u-1")
	first.syncedInput = 7
	if m.get(key, "u-1") != first {
		t.Error("a parent's memory is lost")
	}
	if m.get(key, "u-2").syncedInput != 0 {
		t.Error("a parent remembers what another of its name did")
	}
	m.drop(key)
	m.drop(key)
	if len(m.byKey) != 0 {
		t.Error("a parent that is gone is remembered")
	}
}

func TestTheLastErrorStays(t *testing.T) {
	m := newMemories()
	one := m.get(queue.Key{Name: "p"}, "u")
	m.record(one, 0, runResult{failing: true}, &LastError{Message: "no", Object: "p", Time: time.Unix(1, 0)})
	m.record(one, 0, runResult{}, nil)
	if m.lastError.Message != "no" || m.failing != 0 {
		t.Errorf("got %+v, %d failing", m.lastError, m.failing)
	}
}

// An up-to-date child has to be compared again when its spec or its desired state changes, but not
// when a kind with generations updates its status.
func TestUpToDateChildren(t *testing.T) {
	const counted = `{"kind":"Pod","metadata":{"name":"c","uid":"c-1","generation":2,"labels":{"a":"1"}},"status":{"phase":"Pending"}}`
	const plain = `{"kind":"ConfigMap","metadata":{"name":"c","uid":"c-1","resourceVersion":"1"},"data":{"a":"1"}}`
	for name, c := range map[string]struct {
		child, old, new string
		desired         uint64
		agreed          bool
	}{
		"same":               {counted, "", "", 9, true},
		"another wish":       {counted, "", "", 8, false},
		"status":             {counted, "Pending", "Running", 9, true},
		"edited":             {counted, `"generation":2`, `"generation":3`, 9, false},
		"labelled":           {counted, `"a":"1"`, `"a":"2"`, 9, false},
		"another of its UID": {counted, `c-1`, `c-2`, 9, false},
		"plain, same":        {plain, `"resourceVersion":"1"`, `"resourceVersion":"2"`, 9, true},
		"plain, edited":      {plain, `"a":"1"`, `"a":"2"`, 9, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemories().get(queue.Key{Name: "p"}, "u")
			m.upToDate.add(parse(t, c.child), 9)
			if got := m.upToDate.contains(parse(t, strings.Replace(c.child, c.old, c.new, 1)), c.desired); got != c.agreed {
				t.Errorf("agreed: %v", got)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	malformed := &hook.MalformedError{Path: "children", Err: errors.New("required")}
	delayed := &hook.RetryAfterError{After: time.Minute, Err: errors.New("busy")}
	for name, c := range map[string]struct {
		err    error
		reason string
		ofHook bool
		delay  time.Duration
	}{
		"malformed": {hookFailure("sync", malformed), ReasonInvalidResponse, true, 0},
		"hook":      {hookFailure("sync", errors.New("refused")), ReasonHookFailed, true, 0},
		"later":     {hookFailure("sync", delayed), ReasonHookFailed, true, time.Minute},
		"write":     {failure.WithReason(ReasonWriteFailed, errors.New("quota")), ReasonWriteFailed, false, 0},
		"unnamed":   {errors.New("read it"), ReasonWriteFailed, false, 0},
		"joined":    {errors.Join(hookFailure("sync", malformed), failure.WithReason(ReasonWriteFailed, errors.New("status"))), ReasonInvalidResponse, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			err := fmt.Errorf("wrapped: %w", c.err)
			delay, postponed := hook.RetryDelay(err)
			if reasonOf(err) != c.reason || isHookFailure(err) != c.ofHook || delay != c.delay || postponed != (c.delay > 0) {
				t.Errorf("got %s, of hook %v, %v", reasonOf(err), isHookFailure(err), delay)
			}
			if !errors.Is(err, errors.Unwrap(err)) || err.Error() == "" {
				t.Errorf("%v does not say what happened", err)
			}
		})
	}
}

func TestJoinErrors(t *testing.T) {
	quota := errors.New("quota")
	for name, c := range map[string]struct {
		errs []error
		want string
	}{
		"none":           {nil, "<nil>"},
		"nothing wrong":  {[]error{nil, nil}, "<nil>"},
		"a real one":     {[]error{quota, nil}, "quota"},
		"moved":          {[]error{errConflict, errConflict}, errConflict.Error()},
		"moved and more": {[]error{errConflict, quota, errConflict}, "quota"},
	} {
		if got := fmt.Sprint(joinErrors(c.errs)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestNameWaitersDropDeletedParents(t *testing.T) {
	w := newNameWaiters()
	name, other := childName{name: "a"}, childName{name: "b"}
	one, two := queue.Key{Name: "one"}, queue.Key{Name: "two"}
	w.add(name, one)
	w.add(name, two)
	w.add(other, one)
	w.drop(one)
	if len(w.byName) != 1 {
		t.Errorf("still %v", w.byName)
	}
	if got := w.take(name); len(got) != 1 || !got[two] || len(w.take(name)) != 0 {
		t.Errorf("took %v", got)
	}
}

// Fault U1: a parent fails since the first failure in a row.
func TestFailingSince(t *testing.T) {
	m := newMemories()
	key := queue.Key{Name: "p"}
	of := m.get(key, "u")
	fails := func(second int64) { m.record(of, 0, runResult{failing: true, since: time.Unix(second, 0)}, nil) }
	fails(1)
	fails(2)
	fails(3)
	if state := m.objectState(key, "u"); state.Attempts != 3 || state.Since != time.Unix(1, 0) {
		t.Errorf("failed %d times since %s", state.Attempts, state.Since)
	}
	m.record(of, 0, runResult{}, nil)
	fails(9)
	if state := m.objectState(key, "u"); state.Attempts != 1 || state.Since != time.Unix(9, 0) {
		t.Errorf("after a recovery: failed %d times since %s", state.Attempts, state.Since)
	}
}
