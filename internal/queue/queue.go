package queue

import (
	"context"
	"sync"
	"time"
)

// Queue is the work of one controller program. Its methods may be called from
// any goroutine.
type Queue struct {
	options Options
	epoch   time.Time     // the zero of the queue's clock
	wake    chan struct{} // holds a token when a waiting worker should look
	done    chan struct{} // closed by Close

	mu      sync.Mutex
	closed  bool
	entries map[Key]*entry
	free    freeList[entry]
	ready   ready
	delays  delays
	alarm   *time.Timer   // rings when the earliest delay ends
	alarmAt time.Duration // when it does; zero: not set
	active  int           // keys that workers have
	waiting int           // workers that wait in Next
}

// Item is a key handed to a worker, which gives it back with [Queue.Done].
type Item struct {
	Key     Key
	Causes  Causes        // belongs to the receiver
	Attempt int           // how many attempts in a row have failed
	Waited  time.Duration // since the oldest cause could have been served
}

// New returns an empty queue.
func New(options Options) *Queue {
	return &Queue{
		options: options.withDefaults(),
		epoch:   time.Now().Add(-1), // so that no moment is zero
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		entries: map[Key]*entry{},
	}
}

// Add queues the key because of the cause.
func (q *Queue) Add(key Key, cause Cause) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.addCause(q.entry(key), cause, q.now())
	q.signal()
}

// AddAfter adds the key when the delay has passed. If an earlier AddAfter of
// the key is still to come before that, it stands and this one is dropped.
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

// Next waits for a key and hands it out. It returns false when the context
// ends or the queue is closed.
func (q *Queue) Next(ctx context.Context) (Item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ctx.Err() == nil && !q.closed {
		if q.ready.len > 0 {
			e := q.ready.pop()
			q.active++
			q.wakeWorker()
			return e.take(q.now()), true
		}
		q.wait(ctx)
	}
	q.wakeWorker() // the token this worker may have taken is for another
	return Item{}, false
}

// Done gives back a key that Next handed out. It returns the delay until the
// key is tried again when that waits for a backoff, else zero.
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

// Backoff is a delay after one more failure of an item.
func (q *Queue) Backoff(item Item) time.Duration { return q.options.backoff(item.Attempt) }

// Work gives each key that comes to a function, one after the other, and back with
// what it returns, until the context ends or the queue is closed.
func (q *Queue) Work(ctx context.Context, do func(context.Context, Item) Outcome) {
	for {
		item, ok := q.Next(ctx)
		if !ok {
			return
		}
		q.Done(item.Key, do(ctx, item))
	}
}

// Forget drops what a key waits for and its failures: its object is gone. A key
// that is queued or held stays so, for it was added for a reason.
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

// RetryNow ends all backoffs as an event would, and returns how many: whatever
// the keys failed for seems to be over. Keys that failed less than
// [Options.EventDelay] ago follow when it has passed, and those whose delay was
// given with RetryAfter keep it; so nothing spins when the good news is wrong.
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

// RetryKeysNow is RetryNow for these keys alone.
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

// Close ends the queue: Next returns false, whatever is still queued or
// delayed is dropped, and later Adds do nothing.
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
	// The runtime may keep the stopped alarm for as long as it was set for, and
	// the alarm keeps the queue; it must not keep all that was in it.
	q.entries, q.free, q.ready, q.delays, q.active = nil, nil, ready{}, delays{}, 0
}
