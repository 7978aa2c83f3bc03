package handle

import (
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// memory is what is remembered of one object between runs. Losing it costs the
// old objects of notices, and a call of handlers whose answers were not written
// yet. It belongs to the worker that holds the object's key.
type memory struct {
	uid string
	// firstSeen is when the object was first looked at.
	firstSeen time.Time
	handlers  []handlerMemory
	// pending are the answers that are not written yet, in the order they came in.
	pending []*pendingResponse
	// writeAttempt is how the writes of the object itself fail.
	writeAttempt attempt
	// stateRemovals is how often the record was removed lately, last since then.
	stateRemovals attempt
	// conflicts is how many runs in a row met an object that had changed meanwhile.
	conflicts int
	// throttle slows down handlers that are called again and again because of changes.
	throttle throttle
	// ownVersions are those that our latest writes made: they are no news.
	ownVersions []uint64
	// conditions says that answers have carried conditions.
	conditions bool
	paused     bool
	// applied is how the owned objects were left.
	applied []appliedDigests
	// revisions are the revisions of the object.
	revisions revisionHistory
	result    runResult
	// state is what of all this others may read: see Cares.
	state record.ObjectState
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

// runResult is the present failure of an object, if any.
type runResult struct {
	failing, handlerFailing, conflicting bool
	message                              string
	lastEvent                            time.Time
	// fault is what failed in the latest run, if one did.
	fault *record.Fault
}

// memories are the memories of all objects of a controller, with the sums that
// its health is made of.
type memories struct {
	mu    sync.Mutex
	byKey map[queue.Key]*memory
	// Sums over byKey.
	failing, handlerFailing, conflicting, paused int
	lastError                                    LastError
	// lastHandlerError is what handlers fail with, as one message for all objects.
	lastHandlerError LastError
}

func newMemories() *memories {
	return &memories{byKey: map[queue.Key]*memory{}}
}

// get returns the memory of an object, a fresh one for another object of its name.
func (m *memories) get(key queue.Key, uid string) (found *memory, fresh bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byKey[key]
	if known != nil && known.uid == uid {
		return known, false
	}
	m.release(known)
	made := &memory{uid: strings.Clone(uid)}
	m.byKey[key] = made
	return made, true
}

// drop forgets an object that is gone, or is nobody's business any more.
func (m *memories) drop(key queue.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(m.byKey[key])
	delete(m.byKey, key)
}

// clear forgets all: what others did meanwhile is not known.
func (m *memories) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.byKey)
	m.failing, m.handlerFailing, m.conflicting, m.paused = 0, 0, 0, 0
}

// release takes a memory out of the sums, and ends its daemons.
func (m *memories) release(known *memory) {
	if known == nil {
		return
	}
	m.paused -= boolToInt(known.paused)
	m.replace(known, runResult{})
	for i := range known.handlers {
		if w := known.handlers[i].daemon; w != nil {
			w.stop()
		}
	}
}

// replace replaces an object's trouble in its memory and in the sums.
func (m *memories) replace(of *memory, now runResult) {
	m.failing += boolToInt(now.failing) - boolToInt(of.result.failing)
	m.handlerFailing += boolToInt(now.handlerFailing) - boolToInt(of.result.handlerFailing)
	m.conflicting += boolToInt(now.conflicting) - boolToInt(of.result.conflicting)
	of.result = now
}

// record records how a run went for its object.
func (m *memories) record(of *memory, now runResult, last LastError, ran time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of.updateState(now, last, ran)
	if last.Message != "" {
		m.lastError = last
		if now.handlerFailing && (m.handlerFailing == 0 || last.Time.Sub(m.lastHandlerError.Time) > messageInterval) {
			m.lastHandlerError = last
		}
	}
	m.replace(of, now)
}

// updateState has others read how a run went.
func (m *memory) updateState(now runResult, last LastError, ran time.Time) {
	m.state.LastRun, m.state.Failing = ran, now.failing
	switch {
	case !now.failing:
		m.state.Error, m.state.Fault, m.state.Attempts, m.state.Locations = "", nil, 0, nil
		m.state.Since = time.Time{}
	case last.Message != "":
		// A run that only waited says nothing new.
		m.state.Error, m.state.Fault, m.state.Locations = last.Message, now.fault, last.Locations
		m.state.Attempts++
		if m.state.Since.IsZero() {
			m.state.Since = ran
		}
	}
}

// messageInterval is how long one message stands for what the handlers fail with.
// Each object may be failed in other words, and a condition must not flap.
const messageInterval = 30 * time.Second

// setPaused notes whether an object is left alone.
func (m *memories) setPaused(of *memory, paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused += boolToInt(paused) - boolToInt(of.paused)
	of.paused = paused
}

// uids are those of all objects that are remembered.
func (m *memories) uids() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]string, 0, len(m.byKey))
	for _, one := range m.byKey {
		all = append(all, one.uid)
	}
	return all
}

// failingKeys are the objects that failed when last run.
func (m *memories) failingKeys() []queue.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []queue.Key
	for key, one := range m.byKey {
		if one.result.failing {
			keys = append(keys, key)
		}
	}
	return keys
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
