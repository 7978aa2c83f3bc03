package queue

import (
	"strconv"
	"time"
)

// entry is what the queue knows of one key. It exists while the key is queued,
// held by a worker, or waited for by a timer, and is used again for other keys.
type entry struct {
	key          Key
	causes       Causes        // gathered since the key was last handed out
	waitingSince time.Duration // when the oldest of them could have run; zero: not yet
	attempts     int           // that failed, in a row
	active       bool          // by a worker

	// While queued: where.
	lane     *lane
	priority Priority
	link     link[entry]

	retry         timer         // ends the backoff
	earliestRetry time.Duration // events do not bring the retry forward beyond this
	delayed       timer         // of AddAfter
	delayedCause  Cause
}

func (e *entry) reset(key Key) {
	e.key = key
	e.link.element, e.retry.entry, e.delayed.entry = e, e, e
}

func (e *entry) idle() bool {
	return !e.active && e.lane == nil && !e.retry.set() && !e.delayed.set()
}

// take gives the entry to a worker, with everything gathered so far.
func (e *entry) take(now time.Duration) Item {
	item := Item{Key: e.key, Causes: e.causes, Attempt: e.attempts, Waited: now - e.waitingSince}
	e.active, e.causes, e.waitingSince = true, Causes{}, 0
	return item
}

// retryCause is the cause that the end of the entry's backoff adds.
func (e *entry) retryCause() Cause {
	if e.attempts == 0 {
		return Cause{Kind: Retrying}
	}
	return Cause{Kind: Retrying, Detail: strconv.Itoa(e.attempts)}
}
