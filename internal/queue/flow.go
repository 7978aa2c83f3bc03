package queue

import (
	"context"
	"time"
)

// How a key moves: noted, placed, handed out, concluded, discarded. All of it
// happens under Queue.mu.

func (q *Queue) now() time.Duration { return time.Since(q.epoch) }

func (q *Queue) entry(key Key) *entry {
	e := q.entries[key]
	if e == nil {
		e = q.spare.take()
		e.reset(key)
		q.entries[key] = e
	}
	return e
}

// note adds a cause to the entry and queues it, unless a worker holds it.
func (q *Queue) note(e *entry, cause Cause, now time.Duration) {
	e.causes.add(cause)
	if !e.held {
		q.place(e, cause.Kind.traits().reaction, now)
	} else if e.since == 0 {
		e.since = now
	}
}

// place queues the entry, or leaves it in backoff if what has come does not end
// that.
func (q *Queue) place(e *entry, how reaction, now time.Duration) {
	if e.retry.set() && !q.endBackoff(e, how, now) {
		e.since = 0
		return
	}
	if how == restarts {
		e.attempts = 0
	}
	if e.since == 0 {
		e.since = now
	}
	q.ready.push(e)
}

// endBackoff drops the retry timer if the reaction is strong enough, or moves
// it as near as the reaction may.
func (q *Queue) endBackoff(e *entry, how reaction, now time.Duration) bool {
	switch {
	case how == waits:
		return false
	case how == hurries && now < e.soonest:
		q.delays.set(&e.retry, min(e.retry.at, e.soonest))
		return false
	default:
		q.delays.drop(&e.retry)
		return true
	}
}

// conclude applies what a worker reported.
func (q *Queue) conclude(e *entry, outcome Outcome, now time.Duration) {
	switch {
	case outcome.settled:
		e.attempts = 0
	case outcome.after > 0:
		e.soonest = after(now, outcome.after)
		q.delays.set(&e.retry, e.soonest)
	default:
		delay := outcome.backoff
		if delay <= 0 {
			delay = q.options.backoff(e.attempts)
		}
		e.attempts++
		e.soonest = now + min(delay, q.options.EventDelay)
		q.delays.set(&e.retry, after(now, delay))
	}
}

// discard lets go of an entry for which nothing is pending.
func (q *Queue) discard(e *entry) {
	if e.idle() {
		delete(q.entries, e.key)
		q.spare.put(e)
	}
}

// proceed makes sure that somebody looks at what is queued and what will be.
func (q *Queue) proceed() {
	q.arm()
	q.rouse()
}

// arm sets the alarm to the earliest delay. An alarm that rings too early,
// because what it was set for is gone, only sets itself again.
func (q *Queue) arm() {
	at, some := q.delays.next()
	if !some || (q.rings != 0 && q.rings <= at) {
		return
	}
	q.rings = at
	if wait := at - q.now(); q.alarm == nil {
		q.alarm = time.AfterFunc(wait, q.ring)
	} else {
		q.alarm.Reset(wait)
	}
}

// maxExpired bounds how many keys one ring of the alarm queues: when thousands
// come due together, an edit must not wait for the lock until all are in.
const maxExpired = 256

// ring queues keys whose delay has ended. If there are more, the alarm that it
// sets rings at once.
func (q *Queue) ring() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rings = 0
	now := q.now()
	for range maxExpired {
		t := q.delays.popDue(now)
		if t == nil {
			break
		}
		q.expire(t, now)
	}
	q.proceed()
}

func (q *Queue) expire(t *timer, now time.Duration) {
	if t == &t.entry.retry {
		q.note(t.entry, t.entry.retrying(), now)
	} else {
		q.note(t.entry, t.entry.laterBy, now)
	}
}

// rouse wakes one waiting worker if there is something for it. That one rouses
// the next, as wake holds one token only.
func (q *Queue) rouse() {
	if q.ready.len == 0 || q.waiting == 0 {
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Queue) wait(ctx context.Context) {
	q.waiting++
	q.mu.Unlock()
	select {
	case <-q.wake:
	case <-ctx.Done():
	case <-q.done:
	}
	q.mu.Lock()
	q.waiting--
}
