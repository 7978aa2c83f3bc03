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
		e = q.free.take()
		e.reset(key)
		q.entries[key] = e
	}
	return e
}

// addCause adds a cause to the entry and queues it, unless a worker holds it.
func (q *Queue) addCause(e *entry, cause Cause, now time.Duration) {
	e.causes.add(cause)
	if !e.active {
		q.enqueue(e, cause.Kind.traits().reaction, now)
	} else if e.waitingSince == 0 {
		e.waitingSince = now
	}
}

// enqueue queues the entry, or leaves it in backoff if what has come does not end
// that.
func (q *Queue) enqueue(e *entry, reaction backoffReaction, now time.Duration) {
	if e.retry.set() && !q.endBackoff(e, reaction, now) {
		e.waitingSince = 0
		return
	}
	if reaction == resetBackoff {
		e.attempts = 0
	}
	if e.waitingSince == 0 {
		e.waitingSince = now
	}
	q.ready.push(e)
}

// endBackoff drops the retry timer if the reaction is strong enough, or moves
// it as near as the reaction may.
func (q *Queue) endBackoff(e *entry, reaction backoffReaction, now time.Duration) bool {
	switch {
	case reaction == joinRetry:
		return false
	case reaction == advanceRetry && now < e.earliestRetry:
		q.delays.set(&e.retry, min(e.retry.at, e.earliestRetry))
		return false
	default:
		q.delays.drop(&e.retry)
		return true
	}
}

// finish applies what a worker reported.
func (q *Queue) finish(e *entry, outcome Outcome, now time.Duration) {
	switch {
	case outcome.done:
		e.attempts = 0
	case outcome.after > 0:
		e.earliestRetry = addDelay(now, outcome.after)
		q.delays.set(&e.retry, e.earliestRetry)
	default:
		delay := outcome.backoff
		if delay <= 0 {
			delay = q.options.backoff(e.attempts)
		}
		e.attempts++
		e.earliestRetry = now + min(delay, q.options.EventDelay)
		q.delays.set(&e.retry, addDelay(now, delay))
	}
}

// discard lets go of an entry for which nothing is pending.
func (q *Queue) discard(e *entry) {
	if e.idle() {
		delete(q.entries, e.key)
		q.free.put(e)
	}
}

// signal makes sure that somebody looks at what is queued and what will be.
func (q *Queue) signal() {
	q.setAlarm()
	q.wakeWorker()
}

// setAlarm sets the alarm to the earliest delay. An alarm that rings too early,
// because what it was set for is gone, only sets itself again.
func (q *Queue) setAlarm() {
	at, some := q.delays.next()
	if !some || (q.alarmAt != 0 && q.alarmAt <= at) {
		return
	}
	q.alarmAt = at
	if wait := at - q.now(); q.alarm == nil {
		q.alarm = time.AfterFunc(wait, q.onAlarm)
	} else {
		q.alarm.Reset(wait)
	}
}

// maxExpired bounds how many keys one ring of the alarm queues: when thousands
// come due together, an edit must not wait for the lock until all are in.
const maxExpired = 256

// onAlarm queues keys whose delay has ended. If there are more, the alarm that it
// sets rings at once.
func (q *Queue) onAlarm() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.alarmAt = 0
	now := q.now()
	for range maxExpired {
		t := q.delays.popDue(now)
		if t == nil {
			break
		}
		q.expire(t, now)
	}
	q.signal()
}

func (q *Queue) expire(t *timer, now time.Duration) {
	if t == &t.entry.retry {
		q.addCause(t.entry, t.entry.retryCause(), now)
	} else {
		q.addCause(t.entry, t.entry.delayedCause, now)
	}
}

// wakeWorker wakes one waiting worker if there is something for it. That one rouses
// the next, as wake holds one token only.
func (q *Queue) wakeWorker() {
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
