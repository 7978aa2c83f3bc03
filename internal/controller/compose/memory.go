package compose

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// memory is the state of one parent between runs. It holds digests, not objects: losing it costs a
// hook call and some comparisons. The worker that has the parent's key owns it.
type memory struct {
	uid string
	// syncedInput is the digest of the input whose response was applied in full; 0 for none.
	syncedInput uint64
	// status has the digests of the status that was sent and of the status that the server stored.
	// They differ if the schema prunes fields.
	status struct{ wanted, stored uint64 }
	// hookConditions are the types of Setpoint's conditions that the latest response sets itself.
	hookConditions []string
	// finalized means that a response with finalized: true was applied.
	finalized bool
	// upToDate children need no comparison until they or their desired state change.
	upToDate upToDateChildren
	// children is how many children the parent had in its last run.
	children int
	result   runResult
	// conflicts is how many runs in a row ended with a conflict.
	conflicts int
	// customizedParent is the digest of the parent in the last customize request; 0 for none.
	customizedParent uint64
	// sentEvents are digests of the events in the latest response.
	sentEvents []uint64
	flapping   plan.Flapping
	// determinism finds hooks whose responses to the same request differ. hasWritten means that
	// something was written since the latest call.
	determinism plan.DeterminismCheck
	hasWritten  bool
	// paused means that the pause was reported.
	paused bool
	// specDigest is the spec of the last run, 0 if unknown. editedAt is when it changed, and
	// editPending means that no run has succeeded since.
	specDigest  uint64
	editedAt    time.Time
	editPending bool
	// lastRun is the time of the last run, failures the number of failures in a row.
	lastRun  time.Time
	failures int
}

// runResult is the current failure of a parent, if any.
type runResult struct {
	failing     bool
	hookFailing bool
	// unreachable means that the hook returned no response at all.
	unreachable bool
	message     string
	fault       *record.Fault
	lastEvent   time.Time
	// since is when the first of the failures in a row happened.
	since time.Time
	// locations are where writes were refused. The message may quote objects there.
	locations []record.Location
}

// conflict says what does not converge, and the locations of the objects.
type conflict struct {
	message   string
	locations []record.Location
}

// memories are the memories of all parents of a controller, with the counts for its health.
type memories struct {
	mu          sync.Mutex
	byKey       map[queue.Key]*memory
	children    int
	paused      int
	conflicts   map[queue.Key]conflict
	failing     int
	hookFailing int
	lastError   LastError
	// lastHookError is the latest hook error, the same for all parents.
	lastHookError LastError
}

func newMemories() *memories {
	return &memories{byKey: map[queue.Key]*memory{}, conflicts: map[queue.Key]conflict{}}
}

// get returns the memory of a parent. It is a new one if the UID has changed.
func (m *memories) get(key queue.Key, uid string) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byKey[key]
	if known != nil && known.uid == uid {
		return known
	}
	m.release(known)
	fresh := &memory{uid: strings.Clone(uid)}
	m.byKey[key] = fresh
	return fresh
}

// unreachableKeys returns the parents whose last hook call got no response.
func (m *memories) unreachableKeys() []queue.Key {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []queue.Key
	for key, known := range m.byKey {
		if known.result.unreachable {
			keys = append(keys, key)
		}
	}
	return keys
}

// drop removes a parent.
func (m *memories) drop(key queue.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(m.byKey[key])
	delete(m.byKey, key)
	delete(m.conflicts, key)
}

// release subtracts a memory from the counts.
func (m *memories) release(known *memory) {
	if known == nil {
		return
	}
	m.children -= known.children
	m.paused -= count(known.paused)
	m.setResult(known, runResult{})
}

// setResult replaces the result in a memory and updates the counts.
func (m *memories) setResult(of *memory, now runResult) {
	m.failing += count(now.failing) - count(of.result.failing)
	m.hookFailing += count(now.hookFailing) - count(of.result.hookFailing)
	if of.result.failing {
		now.since = of.result.since
	}
	of.result = now
	of.failures++
	if !now.failing {
		of.failures = 0
	}
}

func (m *memories) setPaused(of *memory, paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused += count(paused) - count(of.paused)
	of.paused = paused
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// setConflict sets or clears the conflict of a parent at the end of a run.
func (m *memories) setConflict(key queue.Key, of *memory, current conflict, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of.lastRun = now
	if current.message == "" {
		delete(m.conflicts, key)
		return
	}
	m.conflicts[key] = current
}

// firstConflict returns the conflict of the first parent by name, so that the message is stable.
func (m *memories) firstConflict() string {
	keys := slices.SortedFunc(maps.Keys(m.conflicts), func(a, b queue.Key) int { return strings.Compare(a.String(), b.String()) })
	if len(keys) == 0 {
		return ""
	}
	return m.conflicts[keys[0]].message
}

// record stores the result of a run.
func (m *memories) record(of *memory, children int, now runResult, last *LastError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.children += children - of.children
	of.children = children
	if last != nil {
		m.lastError = *last
		m.setLastHookError(now, *last)
	}
	m.setResult(of, now)
}

// minHookMessageAge is how long one hook error stands for all. Errors may differ between parents,
// and a condition must not flap.
const minHookMessageAge = 30 * time.Second

// setLastHookError replaces lastHookError if it is old or the hook was not failing.
func (m *memories) setLastHookError(now runResult, last LastError) {
	if now.hookFailing && (m.hookFailing == 0 || last.Time.Sub(m.lastHookError.Time) > minHookMessageAge) {
		m.lastHookError = last
	}
}
