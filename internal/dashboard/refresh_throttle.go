package dashboard

import (
	"sync"
	"time"
)

// Slow pages refresh less often: the interval is refreshFactor times the render time, up to
// maxRefreshInterval. So an open page uses only a fraction of the API server's time.
const (
	refreshFactor      = 5
	maxRefreshInterval = time.Minute
)

// Users choose which pages there are, so the memory is limited.
const (
	maxTrackedPathBytes = 1 << 10
	maxTrackedPages     = 2 * maxStreams
	maxTrackedUsers     = 1024
)

// refreshThrottle tracks how long pages took to render, by user and path.
type refreshThrottle struct {
	mu     sync.Mutex
	byUser map[string]map[string]*pageTiming
}

// pageTiming is the last render time of a page, the number of renders in progress, and when the
// latest started.
type pageTiming struct {
	took      time.Duration
	rendering int
	since     time.Time
}

// startRender tracks a render until end is called.
func (p *refreshThrottle) startRender(user, path string) (end func()) {
	began := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	page := p.timing(user, path)
	page.rendering++
	page.since = began
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		page.rendering--
		page.took = time.Since(began)
	}
}

// timing returns the timing of a page. Long paths are not tracked.
func (p *refreshThrottle) timing(user, path string) *pageTiming {
	if page := p.byUser[user][path]; page != nil {
		return page
	}
	page := &pageTiming{}
	if len(path) > maxTrackedPathBytes {
		return page
	}
	if p.byUser == nil {
		p.byUser = map[string]map[string]*pageTiming{}
	}
	if p.byUser[user] == nil {
		evictOne(p.byUser, maxTrackedUsers)
		p.byUser[user] = map[string]*pageTiming{}
	}
	evictOne(p.byUser[user], maxTrackedPages)
	p.byUser[user][path] = page
	return page
}

// evictOne removes any item if the map is full.
func evictOne[T any](of map[string]T, most int) {
	if len(of) < most {
		return
	}
	for one := range of {
		delete(of, one)
		return
	}
}

// interval returns how long to wait between two refreshes of a page.
func (p *refreshThrottle) interval(user, path string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	page := p.byUser[user][path]
	if page == nil {
		return minRefreshInterval
	}
	took := page.took
	if page.rendering > 0 {
		took = max(took, time.Since(page.since))
	}
	return max(minRefreshInterval, min(refreshFactor*took, maxRefreshInterval))
}
