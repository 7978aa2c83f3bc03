package ui

import "sync"

// maxStreams is how many pages of one visitor are told of changes at a time: each takes a
// connection, and watches.
const maxStreams = 32

// streams counts those that are open, by the visitor's name.
type streams struct {
	mu     sync.Mutex
	byName map[string]int
}

// open counts one more, unless there are too many.
func (s *streams) open(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[name] >= maxStreams {
		return false
	}
	if s.byName == nil {
		s.byName = map[string]int{}
	}
	s.byName[name]++
	return true
}

func (s *streams) close(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[name]--
	if s.byName[name] == 0 {
		delete(s.byName, name)
	}
}
