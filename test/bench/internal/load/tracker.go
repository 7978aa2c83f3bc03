package load

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// Goal is the state that a Tracker waits for: the work done, or all of it gone.
type Goal struct {
	Work
	Gone bool
}

// Observation is one object as a watch last showed it.
type Observation struct {
	Name  string
	Child bool
	Gone  bool
	UID   string
	// Wanted is the value in a parent's spec.
	Wanted string
	// Value is that of a child's data, or of a parent's status.
	Value string
	// Ready is a parent's count of children.
	Ready int
}

// Tracker knows which objects match the desired state. It makes no requests: watches
// call it.
type Tracker struct {
	mu         sync.Mutex
	goal       Goal
	parents    []state
	children   []state
	unexpected map[string]bool
	wrong      int
	reached    chan struct{}
	at         time.Time
	failure    error
}

// state is one expected object.
type state struct {
	seen    Observation
	exists  bool
	correct bool
}

// Expect sets a new goal. What has been seen of the same number of objects
// stays known.
func (t *Tracker) Expect(goal Goal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.goal = goal
	t.parents = resize(t.parents, goal.Parents)
	t.children = resize(t.children, goal.Parents*goal.Children)
	t.reached = make(chan struct{})
	t.wrong = 0
	for i := range t.parents {
		t.evaluate(&t.parents[i], i)
	}
	for c := range t.children {
		t.evaluate(&t.children[c], c/goal.Children)
	}
	for _, states := range [][]state{t.parents, t.children} {
		for _, s := range states {
			if !s.correct {
				t.wrong++
			}
		}
	}
	t.noteReached(time.Now())
	if t.failure != nil {
		t.release()
	}
}

func resize(states []state, n int) []state {
	if len(states) == n {
		return states
	}
	return make([]state, n)
}

// evaluate compares what was last seen of an object with the goal for its parent.
func (t *Tracker) evaluate(s *state, parent int) {
	switch {
	case t.goal.Gone:
		s.correct = !s.exists
	case s.seen.Child:
		s.correct = s.exists && s.seen.Value == t.goal.Value(parent)
	default:
		s.correct = s.exists && s.seen.Ready == t.goal.Children && s.seen.Value == t.goal.Value(parent)
	}
}

// See takes note of an object at a time.
func (t *Tracker) See(s Observation, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, parent := t.find(s)
	if known == nil {
		t.noteUnexpected(s)
		return
	}
	was := known.correct
	known.seen, known.exists = s, !s.Gone
	t.evaluate(known, parent)
	switch {
	case was && !known.correct:
		t.wrong++
	case !was && known.correct:
		t.wrong--
		t.noteReached(at)
	}
}

// find returns the expected object of a name, and its parent's number.
func (t *Tracker) find(s Observation) (*state, int) {
	if !s.Child {
		i, ok := thing.Index(s.Name)
		if !ok || i >= len(t.parents) {
			return nil, 0
		}
		return &t.parents[i], i
	}
	i, j, ok := thing.ChildIndex(s.Name)
	if !ok || i >= len(t.parents) || j >= t.goal.Children {
		return nil, 0
	}
	return &t.children[i*t.goal.Children+j], i
}

// noteUnexpected records children that are not desired. It ignores other names, such as
// the ConfigMap that Kubernetes creates in each namespace.
func (t *Tracker) noteUnexpected(s Observation) {
	if _, _, ours := thing.ChildIndex(s.Name); !s.Child || !ours {
		return
	}
	if s.Gone {
		delete(t.unexpected, s.Name)
		return
	}
	if t.unexpected == nil {
		t.unexpected = map[string]bool{}
	}
	t.unexpected[s.Name] = true
}

// noteReached records when the last object became right. Should one become
// wrong again, the time is that of the last return.
func (t *Tracker) noteReached(at time.Time) {
	if t.wrong == 0 {
		t.at = at
		t.release()
	}
}

// release lets those who wait go on, the first time it is called for a goal.
func (t *Tracker) release() {
	select {
	case <-t.reached:
	default:
		close(t.reached)
	}
}

// Fail makes waiting futile: nothing more will be seen.
func (t *Tracker) Fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = err
	}
	if t.reached != nil {
		t.release()
	}
}

// Wait waits for the goal. When ctx ends before, it says what is wrong.
func (t *Tracker) Wait(ctx context.Context) error {
	t.mu.Lock()
	reached := t.reached
	t.mu.Unlock()
	select {
	case <-reached:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.failure
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), t.Check())
	}
}

// ReachedAt is when the goal was reached.
func (t *Tracker) ReachedAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

// UID is that of the i-th parent, empty while it has not been seen.
func (t *Tracker) UID(i int) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.parents[i].seen.UID, t.failure
}
