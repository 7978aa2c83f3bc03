package admission

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// memoryLimiter bounds what the reviews under way may take, each from its first byte to its
// answer. When it is used up, reads that are slow make room: an API server sends a
// review at once.
type memoryLimiter struct {
	max int64

	mu   sync.Mutex
	used int64
	// reads are the holds whose review is still being read, the oldest first.
	reads []*reservation
}

// budget is what one program may have of the server: turns, and a part of the memory.
type budget struct {
	// turns holds one thing for each review that is with the hook.
	turns chan struct{}
	// used is guarded by the memory's lock.
	used, max int64
}

// reservation is what one review takes of the memory.
type reservation struct {
	limiter *memoryLimiter
	budget  *budget
	bytes   int64
	began   time.Time
	cutOff  func()
	evicted bool
}

const (
	// slowReadAge is how old a read is that makes room for others.
	slowReadAge = time.Second
	// growInterval is how soon is looked whether there is room.
	growInterval = 20 * time.Millisecond
)

// begin begins to read a review of a program. To cut off the read makes it end with an
// error.
func (m *memoryLimiter) begin(of *budget, cutOff func()) *reservation {
	h := &reservation{limiter: m, budget: of, began: time.Now(), cutOff: cutOff}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads = append(m.reads, h)
	return h
}

// grow takes so many bytes more, as soon as there is room for them.
func (h *reservation) grow(ctx context.Context, bytes int64) error {
	if h.tryGrow(bytes) {
		return nil
	}
	ticker := time.NewTicker(growInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return newHTTPError(http.StatusServiceUnavailable, "the reviews under way take all the memory there is for them: %w", context.Cause(ctx))
		}
		if h.tryGrow(bytes) {
			return nil
		}
	}
}

func (h *reservation) tryGrow(bytes int64) bool {
	m := h.limiter
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.evicted {
		return false
	}
	ofProgram, ofAll := h.budget.used+bytes > h.budget.max, m.used+bytes > m.max
	if ofProgram || ofAll {
		h.evict(ofAll)
		return false
	}
	h.bytes, h.budget.used, m.used = h.bytes+bytes, h.budget.used+bytes, m.used+bytes
	return true
}

// evict cuts off the slowest read that is in the way: of all programs, or of this one.
// It is called with the lock held.
func (h *reservation) evict(ofAll bool) {
	m := h.limiter
	slow := slices.IndexFunc(m.reads, func(other *reservation) bool {
		return other != h && (ofAll || other.budget == h.budget) && time.Since(other.began) > slowReadAge
	})
	if slow < 0 {
		return
	}
	m.reads[slow].evicted = true
	m.reads[slow].cutOff()
	m.reads = slices.Delete(m.reads, slow, slow+1)
}

// finishRead says that the review is there.
func (h *reservation) finishRead() {
	h.limiter.mu.Lock()
	defer h.limiter.mu.Unlock()
	h.limiter.reads = slices.DeleteFunc(h.limiter.reads, func(other *reservation) bool { return other == h })
}

// release gives back what the review has taken.
func (h *reservation) release() {
	h.finishRead()
	h.limiter.mu.Lock()
	defer h.limiter.mu.Unlock()
	h.budget.used, h.limiter.used, h.bytes = h.budget.used-h.bytes, h.limiter.used-h.bytes, 0
}
