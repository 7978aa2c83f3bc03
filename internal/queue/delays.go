package queue

import (
	"container/heap"
	"time"
)

// forever is the longest delay. It is small enough to be added to a time.
const forever time.Duration = 1 << 61

func addDelay(now, delay time.Duration) time.Duration { return now + min(delay, forever) }

// timer is a time at which an entry is due. It is part of the entry, so setting it allocates
// nothing.
type timer struct {
	at    time.Duration // on the queue's clock
	slot  int           // index in the heap plus one; zero if not set
	entry *entry
}

func (t *timer) set() bool { return t.slot != 0 }

// until returns the time left; zero if it is not set.
func (t *timer) until(now time.Duration) time.Duration {
	if !t.set() {
		return 0
	}
	return max(t.at-now, 0)
}

// delays is a heap of timers, earliest first.
type delays []*timer

func (d *delays) set(t *timer, at time.Duration) {
	t.at = at
	if t.set() {
		heap.Fix(d, t.slot-1)
		return
	}
	heap.Push(d, t)
}

func (d *delays) drop(t *timer) {
	if t.set() {
		heap.Remove(d, t.slot-1)
	}
}

// next returns when the earliest timer is due; false if none is set.
func (d *delays) next() (time.Duration, bool) {
	if len(*d) == 0 {
		return 0, false
	}
	return (*d)[0].at, true
}

// popDue removes and returns the earliest timer if it is due, else nil.
func (d *delays) popDue(now time.Duration) *timer {
	if at, some := d.next(); !some || at > now {
		return nil
	}
	return heap.Pop(d).(*timer)
}

func (d delays) Len() int           { return len(d) }
func (d delays) Less(i, j int) bool { return d[i].at < d[j].at }

func (d delays) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].slot, d[j].slot = i+1, j+1
}

func (d *delays) Push(x any) {
	t := x.(*timer)
	t.slot = len(*d) + 1
	*d = append(*d, t)
}

func (d *delays) Pop() any {
	last := len(*d) - 1
	t := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	t.slot = 0
	return t
}

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
