package composite

import (
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

const (
	// probeInterval is how often an unreachable hook is called.
	probeInterval = 2 * time.Second
	// maxProbing is for how long, if a process accepts the connections: a hook that has restarted is back by then, and
	// one that crashes at each call should not do so every two seconds.
	maxProbing = 2 * time.Minute
)

// recoveryProbe is the one parent that is retried at a fixed interval while the hook is unreachable
// and the others back off. When its call gets a response, all are retried.
type recoveryProbe struct {
	mu     sync.Mutex
	key    queue.Key
	since  time.Time
	active bool
}

// tryAcquire reports whether a parent is the probe after an error. The first caller becomes it.
func (s *recoveryProbe) tryAcquire(key queue.Key, err error, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !hook.IsUnreachable(err) {
		return false
	}
	if s.since.IsZero() {
		s.since = now
	}
	if !s.active {
		s.key, s.active = key, true
	}
	return s.key == key && (hook.IsUnconnected(err) || now.Sub(s.since) < maxProbing)
}

// reset ends probing.
func (s *recoveryProbe) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active, s.since = false, time.Time{}
}

// drop lets another parent become the probe.
func (s *recoveryProbe) drop(key queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = s.active && s.key != key
}
