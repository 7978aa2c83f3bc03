package engine

import (
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/queue"
)

// scoutEvery is how often a hook that is down is tried.
const scoutEvery = 2 * time.Second

// scout is the one parent that finds out when a hook which is down is back,
// while the others wait out ever longer delays: when it gets an answer they are
// all tried at once.
type scout struct {
	mu    sync.Mutex
	key   queue.Key
	isOut bool
}

// is says whether a parent is the scout. The first that asks becomes it.
func (s *scout) is(key queue.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isOut {
		s.key, s.isOut = key, true
	}
	return s.key == key
}

// end calls the scout back.
func (s *scout) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isOut = false
}

// drop makes room for another scout if this parent was it.
func (s *scout) drop(key queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isOut = s.isOut && s.key != key
}
