package queue

import "time"

// Stats is the state of a queue at one moment.
type Stats struct {
	Depth      [priorities]int // keys that are queued, by Priority
	Active     int             // keys that workers have
	Backoff    int             // keys that wait for a retry
	Delayed    int             // keys that an AddAfter will add
	OldestWait time.Duration   // of a key that is queued
}

// Queued returns how many keys are queued in all.
func (s Stats) Queued() int {
	sum := 0
	for _, depth := range s.Depth {
		sum += depth
	}
	return sum
}

// Len returns how many keys are queued: neither held nor delayed.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.len
}

// Stats looks at every queued key and every delay: it is for a scrape, not for
// a sync.
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
