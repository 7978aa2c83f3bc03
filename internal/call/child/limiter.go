package child

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limiter bounds the children of all pools together. At the limit it ends idle children of other
// pools; if all are in use, calls wait for their turn.
type Limiter struct {
	slots chan struct{}
	// each is the limit of one pool.
	each int
	// waiting counts those that wait for a slot.
	waiting atomic.Int32

	mu    sync.Mutex
	pools map[*Pool]struct{}
	// past has the figures of pools that were closed, by controller.
	past map[string]Figures
}

const (
	// maxEach is the limit of one pool on a machine with many cores.
	maxEach = 4
	// minAll is the least limit of all pools: as many controllers can be at work without starting
	// children in turns.
	minAll = 16
	// minLife is how long a child makes calls before it makes room for another pool. It outweighs
	// the start of a child.
	minLife = 250 * time.Millisecond
	// pollInterval is how often a waiting call looks for idle children.
	pollInterval = 20 * time.Millisecond
)

// NewLimiter returns a limiter for a number of children; 0 for twice the cores, or 16 if that is more.
func NewLimiter(limit int) *Limiter {
	cores := runtime.GOMAXPROCS(0)
	limit = cmp.Or(limit, max(minAll, 2*cores))
	return &Limiter{
		slots: make(chan struct{}, limit), each: min(cores, maxEach, limit),
		pools: map[*Pool]struct{}{}, past: map[string]Figures{},
	}
}

// acquire waits for a slot until ctx ends, or until ready reports that none is needed.
func (l *Limiter) acquire(ctx context.Context, ready func() bool) (got bool, err error) {
	select {
	case l.slots <- struct{}{}:
		return true, nil
	default:
	}
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		l.endIdle()
		select {
		case l.slots <- struct{}{}:
			return true, nil
		case <-ticker.C:
			if ready() {
				return false, nil
			}
		case <-ctx.Done():
			return false, fmt.Errorf("all %d processes of hooks are in use: %w", cap(l.slots), context.Cause(ctx))
		}
	}
}

// release returns a slot.
func (l *Limiter) release() { <-l.slots }

// wants reports whether a child should make room after a call.
func (l *Limiter) wants(one *child) bool {
	return l.waiting.Load() > 0 && time.Since(one.started) > minLife
}

// endIdle ends the child that has been idle for longest.
func (l *Limiter) endIdle() {
	var oldest *child
	var owner *Pool
	var since time.Time
	for _, p := range l.all() {
		if one, idleSince := p.oldestIdle(); one != nil && (oldest == nil || idleSince.Before(since)) {
			oldest, owner, since = one, p, idleSince
		}
	}
	if oldest != nil {
		owner.endIdle(oldest)
	}
}

// oldestIdle returns the least recently used idle child if it has lived long enough.
func (p *Pool) oldestIdle() (one *child, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 || time.Since(p.idle[0].started) < minLife {
		return nil, since
	}
	return p.idle[0], p.idle[0].idleSince
}

func (l *Limiter) all() []*Pool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.pools))
}

func (l *Limiter) add(p *Pool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pools[p] = struct{}{}
}

// remove forgets a pool but keeps its counts, which never decrease.
func (l *Limiter) remove(p *Pool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pools, p)
	l.past[p.config.Controller] = l.past[p.config.Controller].plus(p.figures())
}
