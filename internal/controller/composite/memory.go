package composite

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// memory is the state of one parent between runs. It holds digests, not objects: losing it costs a
// hook call and some comparisons. The worker that has the parent's key owns it.
type memory struct {
	controller.Memory

	// syncedInput is the digest of the input whose response was applied in full; 0 for none.
	syncedInput uint64
	// status has the digests of the status that was sent and of the status that the server stored.
	// They differ if the schema prunes fields; prunedAt is when it did so last, zero if it did not.
	status struct {
		wanted, stored uint64
		prunedAt       time.Time
	}
	// hookConditions are the types of Setpoint's conditions that the latest response sets itself.
	hookConditions []string
	// finalResponse is a response with finalized: true that was applied, without its children; nil for none.
	finalResponse *hook.Response
	// upToDate children need no comparison until they or their desired state change.
	upToDate upToDateChildren
	// coOwned are the children with a desired field that another manager owns, by the digest of their UID.
	coOwned map[uint64]bool
	// recreating are the children that were deleted to be created again; nil for none.
	recreating map[object.Ref]bool
	// customizedParent is the digest of the parent in the last customize request; 0 for none.
	customizedParent uint64
	// customizeFailed means that the finalize hook is called although the customize hook fails.
	customizeFailed bool
	// finalizeRules are what the customize hook has selected in the deletion.
	finalizeRules []hook.RelatedRule
	// sentEvents are digests of the events in the latest response.
	sentEvents []uint64
	flapping   plan.Flapping
	// version is that of the hooks in the latest run.
	version string
	// determinism finds hooks whose responses differ. hasWritten means that there was a write since the latest call.
	determinism plan.DeterminismCheck
	hasWritten  bool
	// edits are those of the parent, which may explain deletions.
	edits guard.Edits
}

const (
	// probeInterval is how often an unreachable hook is called.
	probeInterval = 2 * time.Second
	// maxProbing is for how long, if a process accepts the connections: a hook that has restarted is back by then, and
	// one that crashes at each call should not do so every two seconds.
	maxProbing = 2 * time.Minute
)

// recoveryProbe is the one parent that is retried at a fixed interval while the hook is unreachable
// and the others back off. When its call gets a response, all are retried.
type recoveryProbe struct {
	mu sync.Mutex
	// key is that of the parent, and since is since when the hook is unreachable; zero for none.
	key   queue.Key
	since time.Time
}

// tryAcquire reports whether a parent is the probe after an error. The first caller becomes it.
func (s *recoveryProbe) tryAcquire(key queue.Key, err error, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !hook.IsUnreachable(err) {
		return false
	}
	s.key, s.since = cmp.Or(s.key, key), cmp.Or(s.since, now)
	return s.key == key && (hook.IsUnconnected(err) || now.Sub(s.since) < maxProbing)
}

func (s *recoveryProbe) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.since = queue.Key{}, time.Time{}
}

// drop lets another parent become the probe.
func (s *recoveryProbe) drop(key queue.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == key {
		s.key = queue.Key{}
	}
}

// upToDateChild says that a child in an observed state matches a desired object. child is a digest of its UID.
type upToDateChild struct{ child, observed, desired uint64 }

// upToDateChildren are those of one parent, sorted by child, without pointers for the garbage collector to follow.
type upToDateChildren []upToDateChild

func childDigest(o *object.Object) uint64 { return object.DigestOf([]byte(o.UID())) }

func (a upToDateChildren) find(child uint64) (int, bool) {
	return slices.BinarySearchFunc(a, child, func(one upToDateChild, child uint64) int { return cmp.Compare(one.child, child) })
}

func (a *upToDateChildren) add(stored *object.Object, desired uint64) {
	now := upToDateChild{child: childDigest(stored), observed: stored.ContentDigest(), desired: desired}
	at, found := a.find(now.child)
	if found {
		(*a)[at] = now
		return
	}
	*a = slices.Insert(*a, at, now)
}

func (a upToDateChildren) contains(observed *object.Object, desired uint64) bool {
	at, found := a.find(childDigest(observed))
	return found && a[at].observed == observed.ContentDigest() && a[at].desired == desired
}

func (a *upToDateChildren) grow(children int) {
	if cap(*a) < children {
		*a = append(make(upToDateChildren, 0, children), *a...)
	}
}

// An update in the place of an apply is not enough for a child with a desired field that another manager owns
// too: the apply follows. So the next write of such a child is an apply at once. If the other manager no longer
// owns the field, that costs the API server more, but has the same result.

// noteOwners remembers that another manager owns a desired field of a child.
func (m *memory) noteOwners(result apply.Result) {
	if !result.CoOwned {
		return
	}
	if m.coOwned == nil {
		m.coOwned = map[uint64]bool{}
	}
	m.coOwned[childDigest(result.Updated)] = true
}

// skipUpdates removes the updates of co-owned children from a plan, which leaves their applies.
func (m *memory) skipUpdates(todo plan.Plan) {
	if len(m.coOwned) == 0 {
		return
	}
	for _, stage := range todo.Stages {
		for i := range stage {
			if stage[i].Update != nil && m.coOwned[childDigest(stage[i].Before)] {
				stage[i].Update = nil
			}
		}
	}
}

// inputSeed makes input digests differ between processes.
var inputSeed = maphash.MakeSeed()

// ownWrite has the digests of an object as a decorator last wrote it. The watch returns its writes
// as events, which are not edits and must not retry a failing object at once.
type ownWrite struct{ intent, digest uint64 }

// ownWrites are the latest ones by parent.
type ownWrites struct {
	controller.SharedMap[queue.Key, ownWrite]
}

// note remembers a write. It comes before the write, because the event may be faster than the response.
func (w *ownWrites) note(key queue.Key, written *object.Object) {
	w.Edit(func(last map[queue.Key]ownWrite) { last[key] = ownWrite{written.IntentDigest(), written.Digest()} })
}

// nameWaiters are parents that wait for a name which another object has. They are enqueued when it
// is free, before their backoff ends. Parents that no longer need the name are enqueued once in vain.
type nameWaiters struct {
	controller.SharedMap[object.Ref, map[queue.Key]bool]
}

func (w *nameWaiters) add(name object.Ref, parent queue.Key) {
	w.Edit(func(byName map[object.Ref]map[queue.Key]bool) {
		if byName[name] == nil {
			byName[name] = map[queue.Key]bool{}
		}
		byName[name][parent] = true
	})
}

func (w *nameWaiters) drop(parent queue.Key) {
	w.Edit(func(byName map[object.Ref]map[queue.Key]bool) {
		maps.DeleteFunc(byName, func(_ object.Ref, waiters map[queue.Key]bool) bool {
			delete(waiters, parent)
			return len(waiters) == 0
		})
	})
}

// lostChild is a child that disappeared from a watch by label. It may be deleted, or only have lost the label: then it
// still exists and is still owned, and without its label it would never be deleted.
type lostChild struct {
	resource             object.Resource
	namespace, name, uid string
}

// lostChildren are remembered for the next run of their parent.
type lostChildren struct {
	controller.SharedMap[queue.Key, []lostChild]
}

func (l *lostChildren) add(parent queue.Key, lost ...lostChild) {
	l.Edit(func(all map[queue.Key][]lostChild) { all[parent] = append(all[parent], lost...) })
}
