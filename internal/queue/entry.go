package queue

import (
	"container/list"
	"strconv"
	"time"
)

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

func newEntry(key Key) *entry {
	e := &entry{key: key}
	e.retry.entry, e.delayed.entry = e, e
	return e
}

func (e *entry) idle() bool {
	return !e.active && e.lane == nil && !e.retry.set() && !e.delayed.set()
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
