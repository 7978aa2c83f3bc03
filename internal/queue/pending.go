package queue

import "time"

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
