package dashboard

import "sync"

// maxStreams is the number of event streams of one user: each takes a connection and watches.
const maxStreams = 32

// Plans call hooks and list objects, so few run at a time: maxPlans of one user and
// maxTotalPlans of all.
const (
	maxPlans      = 2
	maxTotalPlans = 8
)

// maxDrafts is the number of forms that one user may send at a time, maxActiveDrafts the number
// processed at a time. A form takes several times the memory of its object.
const (
	maxDrafts       = 3
	maxActiveDrafts = 4
)

// limiter counts operations per user.
type limiter struct {
	// perUser and total are the limits; total 0 means no limit.
	perUser, total int

	mu     sync.Mutex
	active int
	byName map[string]int
}

// acquire takes a slot and reports whether one was free.
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
