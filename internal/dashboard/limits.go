package dashboard

import "sync"

// maxStreams is how many pages of one visitor are told of changes at a time: each takes a
// connection, and watches.
const maxStreams = 32

// How many plans are made at a time, for one visitor and for all: each asks a hook, and
// lists what there is.
const (
	maxPlans      = 2
	maxTotalPlans = 8
)

// maxDrafts is how many objects one visitor may send at a time, in forms; and
// maxActiveDrafts how many are worked on at a time, for all: each takes several times the
// memory that the object has as text.
const (
	maxDrafts       = 3
	maxActiveDrafts = 4
)

// limiter counts what goes on for each visitor, by name.
type limiter struct {
	// perUser is how much one may have, and total how much all may have; 0 for any number.
	perUser, total int

	mu     sync.Mutex
	active int
	byName map[string]int
}

// acquire counts one more, unless there are too many.
func (t *limiter) acquire(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName[name] >= t.perUser || t.total > 0 && t.active >= t.total {
		return false
	}
	if t.byName == nil {
		t.byName = map[string]int{}
	}
	t.byName[name]++
	t.active++
	return true
}

func (t *limiter) release(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active--
	t.byName[name]--
	if t.byName[name] == 0 {
		delete(t.byName, name)
	}
}
