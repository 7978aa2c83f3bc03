package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// logic is a hook whose parents are called again when its version changes, as package composite does.
type logic struct {
	Responses

	now      time.Time
	versions []string // of the latest response for each parent
	calls    int
}

func newLogic(parents int) *logic {
	return &logic{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), versions: make([]string, parents)}
}

func (l *logic) call(parent int, version string) {
	l.calls++
	l.versions[parent] = l.Add(version, l.now)
}

// run lets time pass. Parents with another version than the current one are called again, ten in a second.
func (l *logic) run(d time.Duration, version func(parent int) string) (changes int) {
	for end := l.now.Add(d); l.now.Before(end); l.now = l.now.Add(time.Second) {
		if _, changed := l.Settle(l.now); changed {
			changes++
		}
		if !l.Settled(l.now) {
			continue
		}
		queued := 0
		for parent, had := range l.versions {
			if had != "" && had != l.Current() && queued < 10 {
				queued++
				l.call(parent, version(parent))
			}
		}
	}
	return changes
}

func always(version string) func(int) string { return func(int) string { return version } }

func TestResponsesFollowAVersion(t *testing.T) {
	l := newLogic(100)
	for parent := range 100 {
		l.call(parent, "one")
	}
	if changes := l.run(time.Minute, always("one")); changes != 0 || l.Current() != "one" || l.calls != 100 {
		t.Fatalf("the first version: %d changes, %q, %d calls", changes, l.Current(), l.calls)
	}
	// One parent is reconciled after the hook was replaced.
	l.call(0, "two")
	l.run(SettleTime-time.Second, always("two"))
	if l.Current() != "one" {
		t.Errorf("%q counts at once", l.Current())
	}
	if changes := l.run(time.Minute, always("two")); changes != 1 || l.Current() != "two" || l.calls != 200 {
		t.Errorf("the second version: %d changes, %q, %d calls", changes, l.Current(), l.calls)
	}
	if problem := l.Problem(l.now); problem != "" {
		t.Error(problem)
	}
}

// While replicas have different versions, nothing is called because of them; later those with the older one are.
func TestResponsesOfReplicas(t *testing.T) {
	l := newLogic(10)
	for parent := range 10 {
		l.call(parent, "one")
	}
	l.run(time.Minute, always("one"))
	before := l.calls
	for i := range 300 {
		l.call(i%10, []string{"one", "two"}[i%2])
		if changes := l.run(time.Second, always("two")); changes > 0 {
			t.Fatal("changed while both respond")
		}
	}
	if l.calls != before+300 {
		t.Errorf("%d calls because of replicas", l.calls-before-300)
	}
	l.run(time.Minute, always("two"))
	if l.Current() != "two" || l.calls != before+305 {
		t.Errorf("%q, %d calls", l.Current(), l.calls-before)
	}
	// Without an end it is a problem.
	for i := range 700 {
		l.call(i%10, []string{"one", "two"}[i%2])
		l.run(time.Second, always("two"))
	}
	if problem := l.Problem(l.now); !strings.Contains(problem, "different values") {
		t.Errorf("problem %q", problem)
	}
}

// Versions that mean nothing cause few calls: one per parent, or one per call.
func TestResponsesWithoutMeaning(t *testing.T) {
	n := 0
	for name, version := range map[string]func(int) string{
		"per parent": func(parent int) string { return fmt.Sprint("parent ", parent) },
		"per call":   func(int) string { n++; return fmt.Sprint("call ", n) },
	} {
		l := newLogic(200)
		for parent := range 200 {
			l.call(parent, version(parent))
		}
		l.run(5*time.Hour, version)
		if more := l.calls - 200; more > 5*(maxChanges+1)*10 {
			t.Errorf("%s: %d calls in five hours", name, more)
		}
		if l.Problem(l.now) == "" {
			t.Errorf("%s: no problem", name)
		}
	}
}

func TestResponsesWithoutAVersion(t *testing.T) {
	l := newLogic(2)
	l.call(0, "")
	l.call(1, "one")
	l.call(0, "")
	l.run(time.Hour, always(""))
	if l.Current() != "one" || l.calls != 3 {
		t.Errorf("%q, %d calls", l.Current(), l.calls)
	}
	if !l.HasNone(l.now) {
		t.Error("responses have had a version")
	}
	l.call(0, "one")
	l.run(time.Minute, always("one"))
	if l.HasNone(l.now) {
		t.Error("the latest response has no version")
	}
	var restored Responses
	restored.Restore("one")
	restored.Add("two", l.now)
	if before, changed := restored.Settle(l.now.Add(SettleTime)); !changed || before != "one" {
		t.Errorf("after a restart: %q, %v", before, changed)
	}
}
