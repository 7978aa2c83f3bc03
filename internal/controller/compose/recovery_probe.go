package compose

import (
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

// probeInterval is how often a hook that is down is tried.
const probeInterval = 2 * time.Second

// recoveryProbe is the one parent that finds out when a hook which is down is back,
// while the others wait out ever longer delays: when it gets an answer they are
// all tried at once.
type recoveryProbe struct {
	mu     sync.Mutex
	key    queue.Key
	active bool
}

// tryAcquire says whether a parent is the scout. The first that asks becomes it.
func (s *recoveryProbe) tryAcquire(key queue.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.active {
		s.key, s.active = key, true
	}
	return s.key == key
}

// reset calls the scout back.
func (s *recoveryProbe) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = false
}

// drop makes room for another scout if this parent was it.
func (s *recoveryProbe) drop(key queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = s.active && s.key != key
}
