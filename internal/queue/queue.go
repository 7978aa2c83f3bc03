// Package queue is the work queue of a controller. It holds the keys of objects to reconcile and the causes.
//
// One Queue serves one program. It hands a key to one worker at a time, urgent keys first, fairly
// across namespaces. A key that failed is retried after a growing delay. The causes of a key go
// with it, so that each reconcile knows its triggers.
//
// The package knows the order of work, delays, backoff and causes ([CauseKind]). It does not know
// objects, hooks, the API server or what a reconcile does.
//
// Event handlers, resync timers and the dashboard add keys. The workers of the controllers and the manager take them
// with [Queue.Work], which is [Queue.Next] and then [Queue.Done]. The manager exports [Queue.Stats].
//
// # Guarantees
//
//   - No two workers have the same key. A key that is added while a worker has it comes back after
//     Done, with the new causes.
//   - Every Add is followed by a Next of that key, unless the key is forgotten in backoff or the queue
//     is closed.
//   - User edits go before events, events before retries, timers and initial lists, and those before
//     resyncs. A more urgent cause promotes a queued key. Every eighth pick goes to the lower
//     priorities in turn, so that none starves.
//   - Within a priority, namespaces take turns and keys keep their order.
//   - An Add does not change the timer of AddAfter. Of several AddAfter the earliest counts.
//
// # Backoff
//
// The kind of a cause decides what it does to a key in backoff. An edit resets the failures and runs at once, because
// the input is new. An event moves the retry forward, but not closer than [Options.EventDelay] to the failure, so that
// a failing reconcile that causes events does not spin. A resync joins the retry.
package queue

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/lists"
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

// AddAfter adds the key after a delay. If an earlier AddAfter of the key is pending, it does nothing.
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
	if e.causes.kinds != 0 {
		q.enqueue(e, e.causes.reaction(), now)
	}
	delay := e.retry.until(now)
	q.discard(e)
	q.signal()
	return delay
}

// Backoff returns the delay after one more failure of an item.
func (q *Queue) Backoff(item Item) time.Duration { return q.options.backoff(item.Attempt) }

// Forget drops the timers and failures of a key whose object is gone. A key that is queued or active stays.
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
	return q.retryNow(lists.Map(q.delays, func(t *timer) *entry { return t.entry }))
}

// RetryKeysNow is RetryNow for some keys.
func (q *Queue) RetryKeysNow(keys []Key) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.retryNow(lists.Map(keys, func(key Key) *entry { return q.entries[key] }))
}

// retryNow ends the backoffs of those entries that have one. An entry may be nil, and may come twice.
func (q *Queue) retryNow(entries []*entry) int {
	ended, now := 0, q.now()
	for _, e := range entries {
		if e != nil && e.retry.set() && q.endBackoff(e, advanceRetry, now) {
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
	q.entries, q.ready, q.delays, q.active = nil, ready{}, nil, 0
}

// jitter is the random part of each backoff, so that keys that failed together do not retry together.
const jitter = 0.25

// Options configure a Queue. The zero value works.
type Options struct {
	// BaseDelay is the delay after the first failure; 5 ms if zero.
	BaseDelay time.Duration
	// MaxDelay bounds the delay; 5 min if zero.
	MaxDelay time.Duration
	// EventDelay is the minimum time between a failure and a retry that an event moves forward; 1 s if zero.
	EventDelay time.Duration
	// Random returns random numbers in [0,1) for jitter; math/rand/v2 if nil.
	Random func() float64
	// Now is the clock; time.Now if nil. A clock that stands still ends no delay.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.BaseDelay = cmp.Or(o.BaseDelay, 5*time.Millisecond)
	o.MaxDelay = cmp.Or(o.MaxDelay, 5*time.Minute)
	o.EventDelay = cmp.Or(o.EventDelay, time.Second)
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func (o *Options) backoff(before int) time.Duration {
	delay := o.MaxDelay
	if before < 63 && o.BaseDelay < o.MaxDelay>>before {
		delay = o.BaseDelay << before
	}
	return delay - time.Duration(jitter*o.Random()*float64(delay))
}

// Outcome is the result of a worker for a key. The zero value is Retry.
type Outcome struct {
	done    bool
	after   time.Duration
	backoff time.Duration
}

// NoRequeue ends the work on a key and resets its failures.
func NoRequeue() Outcome { return Outcome{done: true} }

// Retry retries the key after a delay that doubles with each failure.
func Retry() Outcome { return Outcome{} }

// RetryIn is Retry with a delay from [Queue.Backoff].
func RetryIn(backoff time.Duration) Outcome { return Outcome{backoff: backoff} }

// Delay returns the delay until the key comes back; zero if it is not known.
func (o Outcome) Delay() time.Duration { return max(o.after, o.backoff) }

// RetryAfter requeues the key after a delay that a hook or server has chosen. Only an edit or a new hook runs it
// earlier, and it does not count as a failure. A delay that is not positive means Retry, so that the key does not spin.
func RetryAfter(delay time.Duration) Outcome { return Outcome{after: delay} }

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

// maxIdle is how many workers wait for keys. Most controllers have nothing to do most of the time, and each goroutine
// takes several KiB.
const maxIdle = 2

// Work calls a function for one key after another, for up to so many at once, until the context ends or the queue
// is closed.
func (q *Queue) Work(ctx context.Context, workers int, do func(context.Context, Item) Outcome) {
	var running sync.WaitGroup
	var work func()
	work = func() {
		for {
			item, last, ok := q.nextForWorker(ctx, workers)
			if !ok {
				return
			}
			if last {
				running.Go(work)
			}
			q.Done(item.Key, do(ctx, item))
		}
	}
	q.mu.Lock()
	q.workers++
	q.mu.Unlock()
	running.Go(work)
	running.Wait()
}

// nextForWorker returns false if the worker ends. last means that it was the last that waited for keys, and that
// there may be another, which the caller starts.
func (q *Queue) nextForWorker(ctx context.Context, limit int) (item Item, last, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if item, ok = q.next(ctx, maxIdle); !ok {
		q.workers--
		return item, false, false
	}
	if last = q.waiting == 0 && q.workers < limit; last {
		q.workers++
	}
	return item, last, true
}
