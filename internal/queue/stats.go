package queue

import "time"

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
	for _, t := range q.delays.heap {
		if t == &t.entry.retry {
			stats.Backoff++
		}
	}
	stats.Delayed = len(q.delays.heap) - stats.Backoff
	return stats
}
