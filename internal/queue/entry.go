package queue

import (
	"strconv"
	"time"
)

// entry is what the queue knows of one key. It exists while the key is queued,
// held by a worker, or waited for by a timer, and is used again for other keys.
type entry struct {
	key      Key
	causes   Causes        // gathered since the key was last handed out
	since    time.Duration // when the oldest of them could have run; zero: not yet
	attempts int           // that failed, in a row
	held     bool          // by a worker

	// While queued: where.
	lane     *lane
	priority Priority
	place    link[entry]

	retry   timer         // ends the backoff
	soonest time.Duration // events do not bring the retry forward beyond this
	later   timer         // of AddAfter
	laterBy Cause
}

func (e *entry) reset(key Key) {
	e.key = key
	e.place.element, e.retry.entry, e.later.entry = e, e, e
}

func (e *entry) idle() bool {
	return !e.held && e.lane == nil && !e.retry.set() && !e.later.set()
}

// handOut gives the entry to a worker, with everything gathered so far.
func (e *entry) handOut(now time.Duration) Item {
	item := Item{Key: e.key, Causes: e.causes, Attempt: e.attempts, Waited: now - e.since}
	e.held, e.causes, e.since = true, Causes{}, 0
	return item
}

// retrying is the cause that the end of the entry's backoff adds.
func (e *entry) retrying() Cause {
	if e.attempts == 0 {
		return Cause{Kind: Retrying}
	}
	return Cause{Kind: Retrying, Detail: strconv.Itoa(e.attempts)}
}
