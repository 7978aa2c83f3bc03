package queue

import (
	"time"
)

// Stats is the state of a queue.
type Stats struct {
	Depth      [priorities]int // queued keys by Priority
	Active     int             // keys that workers have
	Backoff    int             // keys that wait for a retry
	Delayed    int             // keys of AddAfter
	OldestWait time.Duration   // of a queued key
}

// Queued returns the number of queued keys.
func (s Stats) Queued() int {
	sum := 0
	for _, depth := range s.Depth {
		sum += depth
	}
	return sum
}

// Len returns the number of queued keys, without active and delayed ones.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.len
}

// Stats visits all queued and delayed keys, so call it for a scrape, not for a reconcile.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	stats := Stats{Active: q.active, OldestWait: now - q.ready.oldest(now)}
	for p := range priorities {
		stats.Depth[p] = q.ready.bands[p].len
	}
	for _, t := range q.delays {
		if t == &t.entry.retry {
			stats.Backoff++
		}
	}
	stats.Delayed = len(q.delays) - stats.Backoff
	return stats
}

// Pending is the pending work of a key.
type Pending struct {
	Queued, Active bool
	// Attempts is the number of failures in a row if a retry is pending.
	Attempts int
	// Next is when the key is queued again without an event; zero if it is not.
	Next time.Time
}

// Pending returns the pending work of a key.
func (q *Queue) Pending(key Key) Pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil {
		return Pending{}
	}
	p := Pending{Queued: e.lane != nil, Active: e.active, Attempts: e.attempts}
	switch {
	case e.retry.set():
		// A key from AddAfter waits for the retry.
		p.Next = q.epoch.Add(e.retry.at)
	case e.delayed.set():
		p.Next = q.epoch.Add(e.delayed.at)
	}
	return p
}

// Delayed returns the cause and the rest of the delay of a pending AddAfter; false if there is none.
func (q *Queue) Delayed(key Key) (cause Cause, left time.Duration, pending bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || !e.delayed.set() {
		return Cause{}, 0, false
	}
	return e.delayedCause, e.delayed.until(q.now()), true
}
