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

// memory is what is remembered of one parent between runs: digests, never
// copies of objects. Losing it costs a hook call and some comparing, nothing
// else. It belongs to the worker that holds the parent's key.
type memory struct {
	uid string
	// syncedInput is the digest of the input whose answer was carried out in
	// full; 0 for none.
	syncedInput uint64
	// status is what was last wanted of the status, and what the server made
	// of it: the two differ for ever where a schema prunes a field.
	status struct{ wanted, stored uint64 }
	// hookConditions are the types of conditions that the latest response gave itself, although
	// they are ours elsewhere.
	hookConditions []string
	// finalized says that a response said so, and that it was carried out.
	finalized bool
	// upToDate children need no comparing until they or what is desired change.
	upToDate upToDateChildren
	// children is how many children the parent had when last looked at.
	children int
	result   runResult
	// conflicts is how many runs in a row met an object that had changed meanwhile.
	conflicts int
	// customizedParent is the digest of the parent for which the customize hook gave
	// the rules that hold now; 0 for none.
	customizedParent uint64
	// sentEvents are digests of the events in the latest reply.
	sentEvents []uint64
	// flapping are the children that are written again and again.
	flapping plan.Flapping
	// determinism finds hooks whose responses differ for the same request; wrote says that
	// something was written since the latest call.
	determinism plan.DeterminismCheck
	hasWritten  bool
	// paused says that the user knows that the parent is left alone.
	paused bool
	// specDigest is the spec that was last acted upon, 0 if that is not known; edited is when
	// it was seen to have changed, and editPending says that no run has succeeded
	// since.
	specDigest  uint64
	editedAt    time.Time
	editPending bool
	// lastRun is when the parent was last run, failed how many runs in a row did.
	lastRun  time.Time
	failures int
}

// runResult is the present failure of a parent, if any.
type runResult struct {
	failing     bool
	hookFailing bool
	// unreachable says that the hook gave no answer at all, to this parent or any other.
	unreachable bool
	message     string
	fault       *record.Fault
	lastEvent   time.Time
	// since is when the first run in a row failed.
	since time.Time
	// locations says where writes were refused, which the message may quote.
	locations []record.Location
}

// conflict is what of a parent does not settle, and among which objects.
type conflict struct {
	message   string
	locations []record.Location
}

// memories are the memories of all parents of a controller, with the sums that
// its health is made of.
type memories struct {
	mu       sync.Mutex
	byKey    map[queue.Key]*memory
	children int
	paused   int
	// conflicts is what does not settle, by parent.
	conflicts   map[queue.Key]conflict
	failing     int
	hookFailing int
	lastError   LastError
	// lastHookError is what the hook fails with, as one message for all parents.
	lastHookError LastError
}

func newMemories() *memories {
	return &memories{byKey: map[queue.Key]*memory{}, conflicts: map[queue.Key]conflict{}}
}

// get returns the memory of a parent, a fresh one for another object of its name.
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

// unreachableKeys are the parents whose last call got no answer.
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

// drop forgets a parent that is gone.
func (m *memories) drop(key queue.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(m.byKey[key])
	delete(m.byKey, key)
	delete(m.conflicts, key)
}

// release takes a memory out of the sums.
func (m *memories) release(known *memory) {
	if known == nil {
		return
	}
	m.children -= known.children
	m.paused -= count(known.paused)
	m.setResult(known, runResult{})
}

// setResult replaces a parent's trouble in its memory and in the sums.
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

// setPaused notes whether a parent is left alone.
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

// setConflict notes what of a parent does not settle, without words nothing, at the end of a
// run.
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

// firstConflict is the unrest of the parent that comes first by name, so that it
// stays the same one as long as it lasts.
func (m *memories) firstConflict() string {
	keys := slices.SortedFunc(maps.Keys(m.conflicts), func(a, b queue.Key) int { return strings.Compare(a.String(), b.String()) })
	if len(keys) == 0 {
		return ""
	}
	return m.conflicts[keys[0]].message
}

// record records how a run went for its parent.
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

// minHookMessageAge is how long one message stands for what a hook fails with. Each
// parent may be failed in other words, and a condition must not flap.
const minHookMessageAge = 30 * time.Second

// setLastHookError takes a failure of the hook for the message of all, if it is the
// first one or the former is old.
func (m *memories) setLastHookError(now runResult, last LastError) {
	if now.hookFailing && (m.hookFailing == 0 || last.Time.Sub(m.lastHookError.Time) > minHookMessageAge) {
		m.lastHookError = last
	}
}
