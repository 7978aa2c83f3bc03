package compose

import (
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

// probeInterval is how often an unreachable hook is called.
const probeInterval = 2 * time.Second

// recoveryProbe is the one parent that is retried at a fixed interval while the hook is unreachable
// and the others back off. When its call gets a response, all are retried.
type recoveryProbe struct {
	mu     sync.Mutex
	key    queue.Key
	active bool
}

// tryAcquire reports whether a parent is the probe. The first caller becomes it.
func (s *recoveryProbe) tryAcquire(key queue.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.active {
		s.key, s.active = key, true
	}
	return s.key == key
}

// reset ends probing.
func (s *recoveryProbe) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = false
}

// drop lets another parent become the probe.
func (s *recoveryProbe) drop(key queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = s.active && s.key != key
}
