package register

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// configurationState is the state of one configuration and of its retries.
type configurationState struct {
	key configurationKey
	// synced reports that the configuration is as desired, and since is since when: zero
	// if it was created that way.
	synced bool
	since  time.Time
	// lastApplied is the last written configuration. reverts counts how often another
	// client reverted it, the last time at lastRevert.
	lastApplied *configuration
	reverts     int
	lastRevert  time.Time
	warned      bool
	// err is why it is not synced, backoff the delay after a failure, and retryAt the
	// next try; zero for none.
	err     error
	backoff time.Duration
	retryAt time.Time
}

const (
	// minDelay and maxDelay limit the backoff after a failure.
	minDelay = time.Second
	maxDelay = 30 * time.Second
	// immediateReverts is how many changes of other clients are undone at once.
	immediateReverts = 4
	// conflictResetAfter is how long after the last conflict it is forgotten.
	conflictResetAfter = 10 * time.Minute
)

// conflicting reports that another client keeps changing the configuration.
func (e *configurationState) conflicting() bool { return e.reverts > immediateReverts }

func (e *configurationState) problem() error {
	if e.err == nil && e.conflicting() {
		return fmt.Errorf("another client keeps changing %s: its managedFields name the client", e.key)
	}
	return e.err
}

func (e *configurationState) markSynced(desired *configuration, now time.Time) {
	if !e.synced {
		e.synced, e.since = true, now
	}
	e.lastApplied, e.err, e.backoff, e.retryAt = desired, nil, 0, time.Time{}
	e.resetConflict(now)
	if e.reverts > 0 {
		e.retryAt = e.lastRevert.Add(conflictResetAfter)
	}
}

func (e *configurationState) resetConflict(now time.Time) {
	if !now.Before(e.lastRevert.Add(conflictResetAfter)) {
		e.reverts, e.warned = 0, false
	}
}

// mayWrite reports whether the configuration may be written now. A changed desired state
// may.
func (e *configurationState) mayWrite(desired *configuration, now time.Time) bool {
	again := equality.Semantic.DeepEqual(e.lastApplied, desired)
	if again && e.synced {
		e.resetConflict(now)
		e.reverts++
		e.lastRevert, e.retryAt = now, now
		if e.conflicting() {
			e.retryAt = now.Add(min(minDelay<<min(e.reverts-immediateReverts-1, 6), time.Minute))
		}
	}
	e.synced, e.lastApplied = false, desired
	return !again || !now.Before(e.retryAt)
}

// markWritten records a write, and whether the API server stored the desired state.
func (e *configurationState) markWritten(desired *configuration, created, stored bool, now time.Time) {
	*e = configurationState{key: e.key, lastApplied: desired, synced: stored, since: now, reverts: e.reverts, lastRevert: e.lastRevert,
		warned: e.warned}
	if created {
		e.since = time.Time{}
	}
	if e.reverts > 0 {
		e.retryAt = e.lastRevert.Add(conflictResetAfter)
	}
	if !stored {
		e.markFailed(fmt.Errorf("%s is not stored as written: another webhook may change it", e.key), now)
	}
}

// markFailed records a failure, and reports whether it is new.
func (e *configurationState) markFailed(err error, now time.Time) bool {
	changed := failure.Text(err) != failure.Text(e.err)
	e.synced, e.err = false, err
	e.backoff = min(max(2*e.backoff, minDelay), maxDelay)
	e.retryAt = now.Add(e.backoff)
	return changed
}
