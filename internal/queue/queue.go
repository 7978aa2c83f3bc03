package queue

import (
	"context"
	"math"
	"sync"
	"time"
)

// Queue is the work queue of one program. It is safe for concurrent use.
type Queue struct {
	options Options
	epoch   time.Time     // zero of the queue's clock
	wake    chan struct{} // holds a token if a waiting worker should look
	done    chan struct{} // closed by Close

	mu      sync.Mutex
	closed  bool
	entries map[Key]*entry
	ready   ready
	delays  delays
	alarm   *time.Timer   // fires when the earliest delay ends
	alarmAt time.Duration // when it fires; zero if not set
	active  int           // keys that workers have
	waiting int           // workers that wait in Next
	workers int           // goroutines of Work
}

// Item is a key for a worker, which returns it with [Queue.Done].
type Item struct {
	Key     Key
	Causes  Causes        // belongs to the receiver
	Attempt int           // failures in a row
	Waited  time.Duration // since the first cause could have run
}

// New returns an empty queue.
func New(options Options) *Queue {
	options = options.withDefaults()
	return &Queue{
		options: options,
		epoch:   options.Now().Add(-1), // so that no time is zero
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		entries: map[Key]*entry{},
	}
}

// Add enqueues the key with a cause.
func (q *Queue) Add(key Key, cause Cause) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.addCause(q.entry(key), cause, q.now())
	q.signal()
}

// AddAfter adds the key after a delay. If an earlier AddAfter of the key is pending, it does
// nothing.
func (q *Queue) AddAfter(key Key, cause Cause, delay time.Duration) {
	if delay <= 0 {
		q.Add(key, cause)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	e, at := q.entry(key), addDelay(q.now(), delay)
	if e.delayed.set() && e.delayed.at <= at {
		return
	}
	e.delayedCause = cause
	q.delays.set(&e.delayed, at)
	q.signal()
}

// Next waits for a key. It returns false when the context ends or the queue is closed.
func (q *Queue) Next(ctx context.Context) (Item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next(ctx, math.MaxInt)
}

// next also returns false, instead of waiting, if so many others wait.
func (q *Queue) next(ctx context.Context, others int) (Item, bool) {
	for ctx.Err() == nil && !q.closed {
		if q.ready.len > 0 {
			e := q.ready.pop()
			q.active++
			q.wakeWorker()
			return e.take(q.now()), true
		}
		if q.waiting >= others {
			return Item{}, false
		}
		q.wait(ctx)
	}
	q.wakeWorker() // pass on the token that this worker may have taken
	return Item{}, false
}

// Done returns a key to the queue. It returns the delay of a backoff, else zero.
func (q *Queue) Done(key Key, outcome Outcome) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || !e.active {
		return 0
	}
	e.active = false
	q.active--
	now := q.now()
	q.finish(e, outcome, now)
	if !e.causes.empty() {
		q.enqueue(e, e.causes.reaction(), now)
	}
	delay := e.retry.until(now)
	q.discard(e)
	q.signal()
	return delay
}

// Backoff returns the delay after one more failure of an item.
func (q *Queue) Backoff(item Item) time.Duration { return q.options.backoff(item.Attempt) }

// Forget drops the timers and failures of a key whose object is gone. A key that is queued or
// active stays.
func (q *Queue) Forget(key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil {
		return
	}
	q.delays.drop(&e.retry)
	q.delays.drop(&e.delayed)
	e.attempts = 0
	q.discard(e)
}

// RetryNow ends all backoffs as an event does and returns how many. Keys that failed less than
// [Options.EventDelay] ago follow after it, and delays of RetryAfter stay, so that nothing spins.
func (q *Queue) RetryNow() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	var failing []*entry
	for _, t := range q.delays.heap {
		if t == &t.entry.retry {
			failing = append(failing, t.entry)
		}
	}
	return q.retryNow(failing)
}

// RetryKeysNow is RetryNow for some keys.
func (q *Queue) RetryKeysNow(keys []Key) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	var failing []*entry
	for _, key := range keys {
		if e := q.entries[key]; e != nil && e.retry.set() {
			failing = append(failing, e)
		}
	}
	return q.retryNow(failing)
}

func (q *Queue) retryNow(failing []*entry) int {
	ended, now := 0, q.now()
	for _, e := range failing {
		if q.endBackoff(e, advanceRetry, now) {
			q.addCause(e, e.retryCause(), now)
			ended++
		}
	}
	q.signal()
	return ended
}

// Close ends the queue: Next returns false, pending keys are dropped, and Add does nothing.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	close(q.done)
	if q.alarm != nil {
		q.alarm.Stop()
	}
	// The runtime may keep the stopped alarm, and with it the queue: drop the content.
	q.entries, q.ready, q.delays, q.active = nil, ready{}, delays{}, 0
}
