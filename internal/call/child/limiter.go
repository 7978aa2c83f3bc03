package child

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Limiter bounds the children of all pools together, and those of one owner, so that there is room for the others. At
// the limit it ends idle children of other pools; if all are in use, calls wait for their turn.
type Limiter struct {
	limit int
	// each is the limit of one pool.
	each int

	mu    sync.Mutex
	pools map[*Pool]struct{}
	// used and waiting are the children of each owner, and its calls that wait for one.
	used, waiting map[string]int
	total         int
	// past has the figures of pools that were closed, by controller.
	past map[string]Figures
}

const (
	// minEach and maxEach bound the limit of one pool: a slow call leaves a child for others, and a machine may have
	// many cores.
	minEach, maxEach = 2, 4
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
		limit: limit, each: min(max(cores, minEach), maxEach, limit),
		pools: map[*Pool]struct{}{}, used: map[string]int{}, waiting: map[string]int{}, past: map[string]Figures{},
	}
}

// acquire waits for a slot until ctx ends, or until ready reports that none is needed.
func (l *Limiter) acquire(ctx context.Context, owner string, ready func() bool) (got bool, err error) {
	if l.tryAcquire(owner) {
		return true, nil
	}
	l.countWaiting(owner, 1)
	defer l.countWaiting(owner, -1)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		l.endIdle(owner)
		if l.tryAcquire(owner) {
			return true, nil
		}
		select {
		case <-ticker.C:
			if ready() {
				return false, nil
			}
		case <-ctx.Done():
			return false, fmt.Errorf("%s: %w", l.inUse(owner), context.Cause(ctx))
		}
	}
}

// tryAcquire takes a slot if there is one, and the owner has not its share yet.
func (l *Limiter) tryAcquire(owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.limit || l.used[owner] >= l.share(owner) {
		return false
	}
	l.total++
	l.used[owner]++
	return true
}

// share is how many children an owner may have: an equal part for each owner that has or wants one, and for one more,
// which finds room at once. The caller has locked the limiter.
func (l *Limiter) share(owner string) int {
	const next = 1
	owners := map[string]bool{owner: true}
	for each := range l.used {
		owners[each] = true
	}
	for each := range l.waiting {
		owners[each] = true
	}
	return max(1, l.limit/(len(owners)+next))
}

// inUse says why an owner gets no slot.
func (l *Limiter) inUse(owner string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if share := l.share(owner); l.used[owner] >= share && l.total < l.limit {
		return fmt.Sprintf("all %d processes that hooks of %s may have are in use", share, owner)
	}
	return fmt.Sprintf("all %d processes of hooks are in use, %d of them by %s", l.limit, l.used[owner], owner)
}

// release returns a slot.
func (l *Limiter) release(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	count(l.used, owner, -1)
}

func (l *Limiter) countWaiting(owner string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count(l.waiting, owner, n)
}

// count changes a count, and forgets owners without any.
func count(of map[string]int, owner string, n int) {
	if of[owner] += n; of[owner] == 0 {
		delete(of, owner)
	}
}

// wants reports whether a child of an owner should make room after a call.
func (l *Limiter) wants(one *worker, owner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	makesRoom := l.waiting[owner] > 0 || len(l.waiting) > 0 && l.total >= l.limit
	return makesRoom && time.Since(one.started) > minLife
}

// endIdle ends the child that has been idle for longest: one of the owner, if others would not help it.
func (l *Limiter) endIdle(owner string) {
	l.mu.Lock()
	full := l.total >= l.limit && l.used[owner] < l.share(owner)
	l.mu.Unlock()
	var oldest *worker
	var pool *Pool
	var since time.Time
	for _, p := range l.all() {
		if !full && p.config.Owner != owner {
			continue
		}
		if one, idleSince := p.oldestIdle(); one != nil && (oldest == nil || idleSince.Before(since)) {
			oldest, pool, since = one, p, idleSince
		}
	}
	if oldest != nil {
		pool.endIdle(oldest)
	}
}

// oldestIdle returns the least recently used idle child if it has lived long enough.
func (p *Pool) oldestIdle() (one *worker, since time.Time) {
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

// Figures are those of the children of one controller.
type Figures struct {
	// Processes is how many run now, and MemoryBytes the memory that they share with no other process.
	Processes   int
	MemoryBytes int64
	// Starts counts children from the beginning, and CPU their processor time.
	Starts int
	CPU    time.Duration
}

func (f Figures) plus(g Figures) Figures {
	return Figures{f.Processes + g.Processes, f.MemoryBytes + g.MemoryBytes, f.Starts + g.Starts, f.CPU + g.CPU}
}

// Figures returns the figures by controller. Those of pools that were closed are counted as long as
// the controller has another.
func (l *Limiter) Figures() map[string]Figures {
	all := map[string]Figures{}
	for _, p := range l.all() {
		all[p.config.Controller] = all[p.config.Controller].plus(p.figures())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for controller := range all {
		all[controller] = all[controller].plus(l.past[controller])
	}
	return all
}

// FiguresOf returns the figures of several limiters.
func FiguresOf(limiters ...*Limiter) map[string]Figures {
	all := map[string]Figures{}
	for _, l := range limiters {
		for controller, figures := range l.Figures() {
			all[controller] = all[controller].plus(figures)
		}
	}
	return all
}
