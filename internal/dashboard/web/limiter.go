package web

import "sync"

// Limiter counts operations per user.
type Limiter struct {
	// PerUser and Total are the limits; Total 0 means no limit.
	PerUser, Total int

	mu     sync.Mutex
	active int
	byName map[string]int
}

// Acquire takes a slot and reports whether one was free.
func (t *Limiter) Acquire(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName[name] >= t.PerUser || t.Total > 0 && t.active >= t.Total {
		return false
	}
	if t.byName == nil {
		t.byName = map[string]int{}
	}
	t.byName[name]++
	t.active++
	return true
}

// Release gives a slot back.
func (t *Limiter) Release(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active--
	t.byName[name]--
	if t.byName[name] == 0 {
		delete(t.byName, name)
	}
}
