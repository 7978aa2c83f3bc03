package explore

import (
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// slot is a name in what is stored.
type slot struct {
	name *name
	// version is nil if no object has the name.
	version       *version
	born, written uint64
}

// stored is what the API server stores, and what was computed of it.
type stored struct {
	id    uint32
	slots []slot

	mu sync.Mutex
	// done are the results of requests, by their number.
	done map[uint32]*result
	// moves are nil until they are computed, and so are edits and interference.
	moves, edits, interference *[]move
	// broken are the invariants that do not hold here; nil until they are computed.
	broken *[]finding
}

// view is what a cache has.
type view struct {
	id uint32
	// versions are sorted by name.
	versions []*version

	mu sync.Mutex
	// delivered is what events queue, and started what a process queues that has just listed this.
	delivered map[delivery][]Item
	started   map[int][]Item
}

// delivery is an event for a process that has own writes in its cache, by the number of their events.
type delivery struct {
	process      int
	version, own uint32
	// writer is set for an own write.
	writer uint32
}

// events are on their way to a cache: sorted by kind, and for each in the order in which they happened.
type events struct {
	id  uint32
	all []event
}

// event is a version that is on its way to a cache.
type event struct {
	*version

	// writers are set if it is of an own write that the cache already has.
	writers *writers
}

// writers are what a process knows of those who made an own write.
type writers struct {
	id  uint32
	all []any
}

// written is a write by one more writer.
type written struct {
	before *writers
	by     any
}

// keys are what a process has to reconcile, sorted.
type keys struct {
	id    uint32
	items []Item
}

// process is the state of a controller's process.
type process struct {
	id uint32
	// view is what events have made; the own writes among the events are not in it.
	view   *view
	events *events
	keys   *keys
	// runs are in flight, sorted by key.
	runs []*run
}

// processes are those of all controllers.
type processes struct {
	id  uint32
	all []*process
}

func (e *engine) storedOf(slots []slot) *stored {
	k := make(key, 0, 24*len(slots))
	for _, s := range slots {
		k = k.number(s.name.id).number(idOf(s.version)).long(s.born).long(s.written)
	}
	return e.stores.add(k, func(id uint32) *stored { return &stored{id: id, slots: slots} })
}

// idOf returns the number of a version that may be absent.
func idOf(v *version) uint32 {
	if v == nil {
		return 0
	}
	return v.id + 1
}

func keyOfVersions(versions []*version) key {
	k := make(key, 0, 4*len(versions))
	for _, v := range versions {
		k = k.number(v.id)
	}
	return k
}

func (e *engine) viewOf(versions []*version) *view {
	return e.views.add(keyOfVersions(versions), func(id uint32) *view { return &view{id: id, versions: versions} })
}

func (e *engine) eventsOf(all []event) *events {
	k := make(key, 0, 8*len(all))
	for _, one := range all {
		writers := uint32(0)
		if one.writers != nil {
			writers = one.writers.id
		}
		k = k.number(one.id).number(writers)
	}
	return e.eventLists.add(k, func(id uint32) *events { return &events{id: id, all: all} })
}

func (e *engine) keysOf(items []Item) *keys {
	var k key
	for _, item := range items {
		k = appendItem(k, item)
	}
	return e.keyLists.add(k, func(id uint32) *keys { return &keys{id: id, items: items} })
}

func appendItem(k key, item Item) key {
	k = k.text(item.Controller).text(item.Key.Namespace).text(item.Key.Name).long(item.Digest)
	if item.Failed {
		k = append(k, 1)
	}
	return k
}

func (e *engine) processOf(v *view, coming *events, pending *keys, runs []*run) *process {
	k := make(key, 0, 12+4*len(runs)).number(v.id).number(coming.id).number(pending.id)
	for _, r := range runs {
		k = k.number(r.id)
	}
	return e.processTable.add(k, func(id uint32) *process { return &process{id, v, coming, pending, runs} })
}

func (e *engine) processesOf(all []*process) *processes {
	k := make(key, 0, 4*len(all))
	for _, p := range all {
		k = k.number(p.id)
	}
	return e.tuples.add(k, func(id uint32) *processes { return &processes{id, all} })
}

// find returns where a name is in a sorted list of versions, or belongs.
func find(versions []*version, n *name) (int, bool) {
	return slices.BinarySearchFunc(versions, n, func(v *version, n *name) int { return compareNames(v.name, n) })
}

// get returns the version of a name that a cache has; nil if none.
func (v *view) get(n *name) *version {
	if i, found := find(v.versions, n); found {
		return v.versions[i]
	}
	return nil
}

// objects returns the objects of a cache.
func (v *view) objects() []*object.Object {
	all := make([]*object.Object, len(v.versions))
	for i, one := range v.versions {
		all[i] = one.object
	}
	return all
}

// with returns a cache with another version of an object, or without it if that version is gone.
func (e *engine) with(v *view, changed *version) *view {
	i, found := find(v.versions, changed.name)
	after := slices.Clone(v.versions)
	switch {
	case found && changed.gone:
		after = slices.Delete(after, i, i+1)
	case found:
		after[i] = changed
	case !changed.gone:
		after = slices.Insert(after, i, changed)
	}
	return e.viewOf(after)
}

// get returns the slot of a name; an empty one if it is new.
func (s *stored) get(n *name) slot {
	if i, found := s.find(n); found {
		return s.slots[i]
	}
	return slot{name: n}
}

func (s *stored) find(n *name) (int, bool) {
	return slices.BinarySearchFunc(s.slots, n, func(at slot, n *name) int { return compareNames(at.name, n) })
}

// raw returns the slots for a Server.
func (s *stored) raw() Stored {
	all := make(Stored, len(s.slots))
	for i, at := range s.slots {
		all[i] = apiserver.Slot{Ref: at.name.ref, Born: at.born, Written: at.written}
		if at.version != nil {
			all[i].Object = at.version.object
		}
	}
	return all
}

// storedFrom is the reverse of raw.
func (e *engine) storedFrom(raw Stored) *stored {
	slots := make([]slot, len(raw))
	for i, at := range raw {
		slots[i] = slot{name: e.nameOf(at.Ref), born: at.Born, written: at.Written}
		if at.Object != nil {
			slots[i].version = e.versionOf(at.Object, false)
		}
	}
	slices.SortFunc(slots, func(a, b slot) int { return compareNames(a.name, b.name) })
	return e.storedOf(slots)
}
