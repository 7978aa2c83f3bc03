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
	maxPaces  = 4096
)

// paces know how long pages took that were last refreshed, by visitor and path.
type paces struct {
	mu     sync.Mutex
	byPage map[paceKey]pace
}

type paceKey struct{ visitor, path string }

// pace is how long a page took, and since when it is being made again; zero if it is not.
type pace struct {
	took  time.Duration
	since time.Time
}

// begin notes that a page is being made, until it is told to end.
func (p *paces) begin(visitor, path string) (end func()) {
	key, began := paceKey{visitor, path}, time.Now()
	p.put(key, pace{since: began})
	return func() { p.put(key, pace{took: time.Since(began)}) }
}

func (p *paces) put(key paceKey, as pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byPage == nil || len(p.byPage) >= maxPaces {
		p.byPage = map[paceKey]pace{}
	}
	p.byPage[key] = as
}

// rest is how long a page is left alone after it was told of a change.
func (p *paces) rest(visitor, path string) time.Duration {
	p.mu.Lock()
	last := p.byPage[paceKey{visitor, path}]
	p.mu.Unlock()
	took := last.took
	if !last.since.IsZero() {
		took = time.Since(last.since)
	}
	return max(liveEvery, min(liveRests*took, maxRest))
}
