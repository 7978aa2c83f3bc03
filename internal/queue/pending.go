package queue

import "time"

// Pending is what is to come of a key.
type Pending struct {
	Queued, Held bool
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
	p := Pending{Queued: e.lane != nil, Held: e.held, Attempts: e.attempts}
	for _, t := range [...]*timer{&e.retry, &e.later} {
		if at := q.epoch.Add(t.at); t.set() && (p.Next.IsZero() || at.Before(p.Next)) {
			p.Next = at
		}
	}
	return p
}
