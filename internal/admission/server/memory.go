package server

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// memoryLimiter limits the memory of reviews in flight, from the first byte to the
// response. When it is exhausted, slow reads are interrupted: an API server sends a
// review at once.
type memoryLimiter struct {
	max int64

	mu   sync.Mutex
	used int64
	// reads are reservations whose review is being read, the oldest first.
	reads []*reservation
}

// budget limits one program: concurrent reviews, and a part of the memory.
type budget struct {
	// turns has one entry for each review in the hook.
	turns chan struct{}
	// used is guarded by the limiter's lock.
	used, max int64
}

// reservation is the memory of one review.
type reservation struct {
	limiter *memoryLimiter
	budget  *budget
	bytes   int64
	began   time.Time
	cutOff  func()
	evicted bool
}

const (
	// slowReadAge is the age of a read that may be interrupted.
	slowReadAge = time.Second
	// growInterval is how often grow retries.
	growInterval = 20 * time.Millisecond
)

// begin starts to read a review. To interrupt the read makes it fail.
func (m *memoryLimiter) begin(of *budget, cutOff func()) *reservation {
	h := &reservation{limiter: m, budget: of, began: time.Now(), cutOff: cutOff}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads = append(m.reads, h)
	return h
}

// grow reserves more bytes, as soon as they are available.
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
			return newHTTPError(http.StatusServiceUnavailable, "the memory for reviews is exhausted: %w", context.Cause(ctx))
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

// evict interrupts the slowest read, of all programs or of this one. The lock must be
// held.
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

func (h *reservation) finishRead() {
	h.limiter.mu.Lock()
	defer h.limiter.mu.Unlock()
	h.limiter.reads = slices.DeleteFunc(h.limiter.reads, func(other *reservation) bool { return other == h })
}

func (h *reservation) release() {
	h.finishRead()
	h.limiter.mu.Lock()
	defer h.limiter.mu.Unlock()
	h.budget.used, h.limiter.used, h.bytes = h.budget.used-h.bytes, h.limiter.used-h.bytes, 0
}
