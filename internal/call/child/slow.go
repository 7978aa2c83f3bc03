package child

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

const (
	// slowAfter is how long a call takes that makes the next one about the same object a slow one.
	slowAfter = time.Second
	// maxSlow limits the objects that are remembered.
	maxSlow = 10_000
	// maxSlowWaiting limits the slow calls that wait: each of them holds a worker of the controller.
	maxSlowWaiting = 8
)

// slowCalls keep calls about objects that have taken long from all children of a pool: the others go on.
type slowCalls struct {
	// turns has an element for each slow call that has a child, places one for each that has or wants one.
	turns, places chan struct{}

	mu sync.Mutex
	// took is how long the last call about an object took, if it was slow, by its UID.
	took map[string]time.Duration
}

// newSlowCalls leaves one of the children of a pool to other calls.
func newSlowCalls(each int) *slowCalls {
	turns := max(1, each-1)
	return &slowCalls{turns: make(chan struct{}, turns), places: make(chan struct{}, turns+maxSlowWaiting),
		took: map[string]time.Duration{}}
}

// enter waits for a turn of a slow call; others need none.
func (s *slowCalls) enter(ctx context.Context, c *Call) (leave func(), err error) {
	took := s.last(c)
	if took == 0 {
		return func() {}, nil
	}
	about := fmt.Sprintf("the last call about this object took %s, and such calls", took.Round(time.Millisecond))
	select {
	case s.places <- struct{}{}:
	default:
		return nil, fmt.Errorf("%s wait for each other: %d of them do", about, maxSlowWaiting)
	}
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns; <-s.places }, nil
	case <-ctx.Done():
		<-s.places
		return nil, fmt.Errorf("%s have at most %d processes of the hook, which are in use: %w", about, cap(s.turns), context.Cause(ctx))
	}
}

func (s *slowCalls) last(c *Call) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.took) == 0 {
		return 0 // Most hooks are fast.
	}
	return s.took[uidOf(c)]
}

// record remembers how long a call took.
func (s *slowCalls) record(c *Call, took time.Duration) {
	if took < slowAfter && s.last(c) == 0 {
		return
	}
	uid := uidOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case uid == "":
	case took < slowAfter:
		delete(s.took, uid)
	case len(s.took) < maxSlow:
		s.took[uid] = took
	}
}

// uidOf returns the UID of the object that a call is about; "" for none.
func uidOf(c *Call) string {
	o, err := object.Parse(c.Object)
	if err != nil {
		return ""
	}
	return o.UID()
}
