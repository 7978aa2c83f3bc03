package ui

import "sync"

// maxStreams is how many pages of one visitor are told of changes at a time: each takes a
// connection, and watches.
const maxStreams = 32

// How many plans are made at a time, for one visitor and for all: each asks a hook, and
// lists what there is.
const (
	maxPlans    = 2
	maxAllPlans = 8
)

// maxDrafts is how many objects one visitor may send at a time, in forms; and
// maxDraftsAtWork how many are worked on at a time, for all: each takes several times the
// memory that the object has as text.
const (
	maxDrafts       = 3
	maxDraftsAtWork = 4
)

// turns counts what goes on for each visitor, by name.
type turns struct {
	// most is how much one may have, and inAll how much all may have; 0 for any number.
	most, inAll int

	mu     sync.Mutex
	all    int
	byName map[string]int
}

// open counts one more, unless there are too many.
func (t *turns) open(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName[name] >= t.most || t.inAll > 0 && t.all >= t.inAll {
		return false
	}
	if t.byName == nil {
		t.byName = map[string]int{}
	}
	t.byName[name]++
	t.all++
	return true
}

func (t *turns) close(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	t.byName[name]--
	if t.byName[name] == 0 {
		delete(t.byName, name)
	}
}
