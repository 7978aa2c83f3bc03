package queue

import "time"

// Pending is what is to come of a key.
type Pending struct {
	Queued, Active bool
	// Attempts is how many failed in a row, as far as a retry is to come.
	Attempts int
	// Next is when it is queued again although nothing happens; zero if it is not.
	Next time.Time
}

// Pending looks at one key.
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
		// What AddAfter adds meanwhile waits for the retry, and joins it.
		p.Next = q.epoch.Add(e.retry.at)
	case e.delayed.set():
		p.Next = q.epoch.Add(e.delayed.at)
	}
	return p
}
