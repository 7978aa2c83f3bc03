package dashboard

import (
	"sync"
	"time"
)

// A page that takes long to make is told of changes less often: it rests for refreshFactor
// times as long as it took, for maxRefreshInterval at most. So an open page, however much it reads,
// takes but a part of the time of the API server.
const (
	refreshFactor      = 5
	maxRefreshInterval = time.Minute
)

// How much is remembered of that: it is visitors who say which pages there are.
const (
	maxTrackedPathBytes = 1 << 10
	maxTrackedPages     = 2 * maxStreams
	maxTrackedUsers     = 1024
)

// refreshThrottle know how long pages took that were last refreshed, by visitor and path.
type refreshThrottle struct {
	mu     sync.Mutex
	byUser map[string]map[string]*pageTiming
}

// pageTiming is how long a page took, in how many tabs it is being made, and since when it is
// in the latest.
type pageTiming struct {
	took      time.Duration
	rendering int
	since     time.Time
}

// startRender notes that a page is being made, until it is told to end.
func (p *refreshThrottle) startRender(visitor, path string) (end func()) {
	began := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	page := p.timing(visitor, path)
	page.rendering++
	page.since = began
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		page.rendering--
		page.took = time.Since(began)
	}
}

// timing is the pace of a page, which is remembered unless it asks for too much.
func (p *refreshThrottle) timing(visitor, path string) *pageTiming {
	if page := p.byUser[visitor][path]; page != nil {
		return page
	}
	page := &pageTiming{}
	if len(path) > maxTrackedPathBytes {
		return page
	}
	if p.byUser == nil {
		p.byUser = map[string]map[string]*pageTiming{}
	}
	if p.byUser[visitor] == nil {
		evictOne(p.byUser, maxTrackedUsers)
		p.byUser[visitor] = map[string]*pageTiming{}
	}
	evictOne(p.byUser[visitor], maxTrackedPages)
	p.byUser[visitor][path] = page
	return page
}

// evictOne forgets one of as many as there may be; whichever, as all are soon known again.
func evictOne[T any](of map[string]T, most int) {
	if len(of) < most {
		return
	}
	for one := range of {
		delete(of, one)
		return
	}
}

// interval is how long a page is left alone after it was told of a change.
func (p *refreshThrottle) interval(visitor, path string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	page := p.byUser[visitor][path]
	if page == nil {
		return minRefreshInterval
	}
	took := page.took
	if page.rendering > 0 {
		took = max(took, time.Since(page.since))
	}
	return max(minRefreshInterval, min(refreshFactor*took, maxRefreshInterval))
}
