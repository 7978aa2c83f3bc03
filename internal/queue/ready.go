package queue

import (
	"container/heap"
	"container/list"
	"context"
	"slices"
	"strconv"
	"time"
)

// lowPriorityEvery is how often a pick ignores the order of priorities. If all bands are full,
// edits get 7 of 8 picks and each lower band 1 of 24.
const lowPriorityEvery = 8

// ready holds the queued keys.
type ready struct {
	bands [priorities]band
	len   int
	picks uint64
	turn  Priority // the band of the latest such pick
}

// band holds the keys of one priority, with a lane for each namespace.
type band struct {
	lanes map[string]*lane
	order list.List // lanes in the order of their turns
	len   int
}

type lane struct {
	namespace string
	keys      list.List     // entries
	element   *list.Element // in band.order
}

// push enqueues the entry with the priority of its causes, or promotes it.
func (r *ready) push(e *entry) {
	priority := e.causes.Priority()
	if e.lane != nil {
		if e.priority <= priority {
			return
		}
		r.remove(e)
	}
	b := &r.bands[priority]
	e.priority, e.lane = priority, b.laneOf(e.key.Namespace)
	e.element = e.lane.keys.PushBack(e)
	b.len++
	r.len++
}

// pop removes and returns the next entry; ready must not be empty.
func (r *ready) pop() *entry {
	b := &r.bands[r.pick()]
	l := b.order.Front().Value.(*lane)
	b.order.MoveToBack(l.element)
	e := l.keys.Front().Value.(*entry)
	r.remove(e)
	return e
}

func (r *ready) pick() Priority {
	r.picks++
	if r.picks%lowPriorityEvery == 0 {
		for range priorities - 1 {
			r.turn = r.turn%Background + 1
			if r.bands[r.turn].len > 0 {
				return r.turn
			}
		}
	}
	for p := range priorities {
		if r.bands[p].len > 0 {
			return p
		}
	}
	return Background
}

func (r *ready) remove(e *entry) {
	b, l := &r.bands[e.priority], e.lane
	l.keys.Remove(e.element)
	e.lane = nil
	b.len--
	r.len--
	if l.keys.Len() == 0 {
		b.order.Remove(l.element)
		delete(b.lanes, l.namespace)
	}
}

func (b *band) laneOf(namespace string) *lane {
	if l := b.lanes[namespace]; l != nil {
		return l
	}
	if b.lanes == nil {
		b.lanes = map[string]*lane{}
	}
	l := &lane{namespace: namespace}
	l.element = b.order.PushBack(l)
	b.lanes[namespace] = l
	return l
}

// oldest returns the start of the longest wait. It visits all entries, because promotions change their order.
func (r *ready) oldest(now time.Duration) time.Duration {
	for i := range r.bands {
		for _, l := range r.bands[i].lanes {
			for at := l.keys.Front(); at != nil; at = at.Next() {
				now = min(now, at.Value.(*entry).waitingSince)
			}
		}
	}
	return now
}

// The steps of a key: add a cause, enqueue, dequeue, finish, discard. All run under Queue.mu.

func (q *Queue) now() time.Duration { return q.options.Now().Sub(q.epoch) }

func (q *Queue) entry(key Key) *entry {
	e := q.entries[key]
	if e == nil {
		e = &entry{key: key}
		e.retry.entry, e.delayed.entry = e, e
		q.entries[key] = e
	}
	return e
}

// addCause adds a cause and enqueues the entry, unless a worker has it.
func (q *Queue) addCause(e *entry, cause Cause, now time.Duration) {
	e.causes.add(cause)
	if !e.active {
		q.enqueue(e, cause.Kind.traits().reaction, now)
	} else if e.waitingSince == 0 {
		e.waitingSince = now
	}
}

// enqueue enqueues the entry, or leaves it in backoff if the reaction does not end that.
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

// endBackoff stops the retry timer if the reaction allows it, or moves it forward.
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

func (q *Queue) discard(e *entry) {
	if !e.active && e.lane == nil && !e.retry.set() && !e.delayed.set() {
		delete(q.entries, e.key)
	}
}

func (q *Queue) signal() {
	q.setAlarm()
	q.wakeWorker()
}

// setAlarm sets the alarm to the earliest timer. An alarm that fires early only sets itself again.
func (q *Queue) setAlarm() {
	if len(q.delays) == 0 || q.alarmAt != 0 && q.alarmAt <= q.delays[0].at {
		return
	}
	q.alarmAt = q.delays[0].at
	if wait := q.alarmAt - q.now(); q.alarm == nil {
		q.alarm = time.AfterFunc(wait, q.onAlarm)
	} else {
		q.alarm.Reset(wait)
	}
}

// maxExpired bounds how many keys one alarm enqueues, so that an edit does not wait for the lock
// when thousands become due together.
const maxExpired = 256

// onAlarm enqueues keys whose delay has ended. If there are more, the next alarm fires at once.
func (q *Queue) onAlarm() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.alarmAt = 0
	now := q.now()
	for range maxExpired {
		if len(q.delays) == 0 || q.delays[0].at > now {
			break
		}
		t := heap.Pop(&q.delays).(*timer)
		cause := t.entry.delayedCause
		if t == &t.entry.retry {
			cause = t.entry.retryCause()
		}
		q.addCause(t.entry, cause, now)
	}
	q.signal()
}

// wakeWorker wakes one waiting worker if a key is ready. That worker wakes the next one, because wake holds one token.
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

// entry is the state of one key. It exists while the key is queued, active or delayed.
type entry struct {
	key          Key
	causes       Causes        // added since the last Next
	waitingSince time.Duration // when the first of them could have run; zero if none could
	attempts     int           // failures in a row
	active       bool          // a worker has it

	// Position while queued.
	lane     *lane
	priority Priority
	element  *list.Element // in lane.keys

	retry         timer         // ends the backoff
	earliestRetry time.Duration // events do not move the retry before this
	delayed       timer         // timer of AddAfter
	delayedCause  Cause
}

// take hands the entry to a worker with all its causes.
func (e *entry) take(now time.Duration) Item {
	item := Item{Key: e.key, Causes: e.causes, Attempt: e.attempts, Waited: now - e.waitingSince}
	e.active, e.causes, e.waitingSince = true, Causes{}, 0
	return item
}

// retryCause returns the cause that the end of the backoff adds.
func (e *entry) retryCause() Cause {
	if e.attempts == 0 {
		return Cause{Kind: Retrying}
	}
	return Cause{Kind: Retrying, Detail: strconv.Itoa(e.attempts)}
}

// forever is the longest delay. It is small enough to be added to a time.
const forever time.Duration = 1 << 61

func addDelay(now, delay time.Duration) time.Duration { return now + min(delay, forever) }

// timer is a time at which an entry is due. It is part of the entry, so setting it allocates nothing.
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
	t.slot = 0
	*d = slices.Delete(*d, last, last+1) // It keeps no reference to the timer.
	return t
}
