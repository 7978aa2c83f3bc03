package ui

import (
	"sync"
	"time"
)

// A page that takes long to make is told of changes less often: it rests for liveRests
// times as long as it took, for maxRest at most. So an open page, however much it reads,
// takes but a part of the time of the API server.
const (
	liveRests = 5
	maxRest   = time.Minute
)

// How much is remembered of that: it is visitors who say which pages there are.
const (
	maxPacedPath     = 1 << 10
	maxPaces         = 2 * maxStreams
	maxPacedVisitors = 1024
)

// paces know how long pages took that were last refreshed, by visitor and path.
type paces struct {
	mu        sync.Mutex
	byVisitor map[string]map[string]*pace
}

// pace is how long a page took, in how many tabs it is being made, and since when it is
// in the latest.
type pace struct {
	took   time.Duration
	making int
	since  time.Time
}

// begin notes that a page is being made, until it is told to end.
func (p *paces) begin(visitor, path string) (end func()) {
	began := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	page := p.of(visitor, path)
	page.making++
	page.since = began
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		page.making--
		page.took = time.Since(began)
	}
}

// of is the pace of a page, which is remembered unless it asks for too much.
func (p *paces) of(visitor, path string) *pace {
	if page := p.byVisitor[visitor][path]; page != nil {
		return page
	}
	page := &pace{}
	if len(path) > maxPacedPath {
		return page
	}
	if p.byVisitor == nil {
		p.byVisitor = map[string]map[string]*pace{}
	}
	if p.byVisitor[visitor] == nil {
		makeRoom(p.byVisitor, maxPacedVisitors)
		p.byVisitor[visitor] = map[string]*pace{}
	}
	makeRoom(p.byVisitor[visitor], maxPaces)
	p.byVisitor[visitor][path] = page
	return page
}

// makeRoom forgets one of as many as there may be; whichever, as all are soon known again.
func makeRoom[T any](of map[string]T, most int) {
	if len(of) < most {
		return
	}
	for one := range of {
		delete(of, one)
		return
	}
}

// rest is how long a page is left alone after it was told of a change.
func (p *paces) rest(visitor, path string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	page := p.byVisitor[visitor][path]
	if page == nil {
		return liveEvery
	}
	took := page.took
	if page.making > 0 {
		took = max(took, time.Since(page.since))
	}
	return max(liveEvery, min(liveRests*took, maxRest))
}
