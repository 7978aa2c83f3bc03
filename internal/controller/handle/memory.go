package handle

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// memory is what is remembered of one object between runs. Losing it costs the
// old objects of notices, and a call of handlers whose answers were not written
// yet. It belongs to the worker that holds the object's key.
type memory struct {
	controller.Memory

	// firstSeen is when the object was first looked at.
	firstSeen time.Time
	handlers  []handlerMemory
	// pending are the answers that are not written yet, in the order they came in.
	pending []*pendingResponse
	// writeAttempt is how the writes of the object itself fail.
	writeAttempt attempt
	// stateRemovals is how often the record was removed lately, last since then.
	stateRemovals attempt
	// throttle slows down handlers that are called again and again because of changes.
	throttle throttle
	// ownVersions are those that our latest writes made: they are no news.
	ownVersions []uint64
	// conditions says that answers have carried conditions.
	conditions bool
	// applied is how the owned objects were left.
	applied []appliedDigests
	// revisions are the revisions of the object.
	revisions revisionHistory
}

// handlerMemory is what is remembered of one handler of an object.
type handlerMemory struct {
	progress
	// events are the changes that a handler of events has not seen.
	events []cache.Event
	// firstDigest is what the handler could have watched at first sight. It is compared
	// with where an entry cannot be made yet, because the handler cares for changes
	// alone.
	firstDigest string
	// serverDigest is what the server made of what was written for the handler:
	// recorded stands in the record, actual is what is there.
	serverDigest struct{ recorded, actual string }
	// errorMessage is what the handler last failed with, reason its kind and fault what of
	// it failed; empty if it is well.
	errorMessage, errorReason string
	fault                     *record.Fault
	// refusedLocations says where writes were refused, which the complaint may quote.
	refusedLocations []record.Location
	// eviction is what budgets keep of the pods that are to be evicted.
	eviction evictionWait
	// idle is since when what is watched has been the same.
	idle struct {
		watched string
		since   time.Time
	}
	// storedEntry is the entry as this process last knew it on the object.
	storedEntry entry
	// unstorableDigest is a digest of what could not be kept.
	unstorableDigest string
	// daemon is the daemon at work, finished that it has done its work.
	daemon   *daemonRun
	finished bool
}

// progress is how far a handler is: what a call of it changes.
type progress struct {
	// handled is the object as the handler last dealt with it; nil if that is not
	// known.
	handled *object.Object
	// attempt is the notice that has to come again.
	attempt attempt
	// resumed says that there is nothing to resume any more.
	resumed bool
	// lastTick is the moment that the next one by the clock is counted from.
	lastTick time.Time
	// pendingEntry is the entry that is not recorded yet; before is what was watched
	// when it was made, and is there until what the handler wrote is.
	pendingEntry *entry
	digestBefore string
	// afterResponse is the object as the pending entry has it, where an answer changes what
	// is watched.
	afterResponse *object.Object
}

// attempt is something that failed and is to be tried again.
type attempt struct {
	reason hook.Reason
	// digest is what it was about: something else is another attempt.
	digest string
	// count is how often it failed, since the first time.
	count int
	since time.Time
	next  time.Time
	// requeued says that the handler did not fail, but wants to be called once more: then,
	// or when the object is not what it was after the writes of that run, by a digest of
	// all of it.
	requeued     bool
	objectDigest string
	// immediateRequeues is how often in a row the handler asked for that to be at once.
	immediateRequeues int
}

// stopDaemons stops the daemons of an object.
func (m *memory) stopDaemons() {
	for i := range m.handlers {
		if d := m.handlers[i].daemon; d != nil {
			d.stop()
		}
	}
}
