package admission

import (
	"bytes"
	"fmt"
	"time"
)

// configurationState is what was made to keep one configuration as it is wanted.
type configurationState struct {
	// synced says that it is, and since when: the zero time if it never was otherwise,
	// having been created so.
	synced bool
	since  time.Time
	// lastApplied is what was tried last, undone how often somebody has changed it after it
	// was done, and lastRevert when they last did.
	lastApplied []byte
	reverts     int
	lastRevert  time.Time
	warned      bool
	// err is why it cannot be kept, delay how long is waited after a failure, and
	// next when something is to be tried again; zero if nothing is.
	err     error
	backoff time.Duration
	retryAt time.Time
	key     configurationKey
}

// immediateReverts is how often a change by others is undone at once.
const immediateReverts = 4

// conflictResetAfter is how long others must have left it alone to be forgiven.
const conflictResetAfter = 10 * time.Minute

// conflicting says that somebody else keeps changing it.
func (e *configurationState) conflicting() bool { return e.reverts > immediateReverts }

// problem is what is to be said of it.
func (e *configurationState) problem() error {
	if e.err == nil && e.conflicting() {
		return fmt.Errorf("%s is changed by somebody else again and again, and put back: find out who by its managedFields, and stop them", e.key)
	}
	return e.err
}

// markSynced notes that it is as wanted.
func (e *configurationState) markSynced(w desiredConfiguration, now time.Time) {
	if !e.synced {
		e.synced, e.since = true, now
	}
	e.key, e.lastApplied, e.err, e.backoff, e.retryAt = w.configurationKey, w.json, nil, 0, time.Time{}
	e.resetConflict(now)
	if e.reverts > 0 {
		e.retryAt = e.lastRevert.Add(conflictResetAfter)
	}
}

// resetConflict forgets what others did once they have left it alone for long enough.
func (e *configurationState) resetConflict(now time.Time) {
	if !now.Before(e.lastRevert.Add(conflictResetAfter)) {
		e.reverts, e.warned = 0, false
	}
}

// mayWrite says whether it may be written now, which it is wanted to be. What is
// wanted anew may.
func (e *configurationState) mayWrite(w desiredConfiguration, now time.Time) bool {
	e.key = w.configurationKey
	again := bytes.Equal(e.lastApplied, w.json)
	if again && e.synced {
		e.resetConflict(now)
		e.reverts++
		e.lastRevert, e.retryAt = now, now
		if e.conflicting() {
			e.retryAt = now.Add(min(minDelay<<min(e.reverts-immediateReverts-1, 6), time.Minute))
		}
	}
	e.synced, e.lastApplied = false, w.json
	return !again || !now.Before(e.retryAt)
}

// markWritten notes that it was written, and whether the API server stored what was
// wanted.
func (e *configurationState) markWritten(w desiredConfiguration, created, stored bool, now time.Time) {
	*e = configurationState{key: w.configurationKey, lastApplied: w.json, synced: stored, since: now, reverts: e.reverts, lastRevert: e.lastRevert, warned: e.warned}
	if created {
		e.since = time.Time{}
	}
	if e.reverts > 0 {
		e.retryAt = e.lastRevert.Add(conflictResetAfter)
	}
	if !stored {
		e.markFailed(fmt.Errorf("%s is not stored as it was written: something changes it on its way, such as another webhook", w.configurationKey), now)
	}
}

// markFailed notes why it is not as wanted, and says whether that is news.
func (e *configurationState) markFailed(err error, now time.Time) bool {
	changed := errorText(err) != errorText(e.err)
	e.synced, e.err = false, err
	e.backoff = min(max(2*e.backoff, minDelay), maxDelay)
	e.retryAt = now.Add(e.backoff)
	return changed
}
