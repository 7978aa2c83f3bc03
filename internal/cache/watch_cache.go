package cache

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// key names an object within its kind.
type key struct{ namespace, name string }

func keyOf(o *object.Object) key { return key{o.Namespace(), o.Name()} }

// watchCache is what a watch knows, without locks or time. It takes in what the API
// server says and what our own writes returned, in whatever order the two
// arrive, and answers with what there is to tell.
//
// It never goes back in time. The API server's word comes in the order of
// versions, so everything up to seen has been heard; a write that is not newer
// brings nothing, even for an object that is not here: then it has been deleted
// since.
type watchCache struct {
	objects map[key]*object.Object
	index   index
	bytes   int
	// serverFiltered says that only the API server knows what is selected: what is not here
	// is not taken in from a write, and what it says is gone is, although a write of
	// ours came later.
	serverFiltered bool

	// latestVersion is the newest version that the API server has sent.
	latestVersion uint64
	// tombstones says of names that are not here what must not come back, although the
	// API server has yet to send it.
	tombstones map[key]tombstone
	// pendingWrites are our own writes, by UID, that the API server has not sent yet.
	pendingWrites map[string]*pendingWrites
}

// tombstone is the end of an object of which we know before the API server says so.
type tombstone struct {
	uid string
	// version is the newest version we know of: everything up to it is history.
	version uint64
	// deleted says that the object was deleted: all that may come of it is history.
	deleted bool
}

func (p tombstone) covers(o *object.Object) bool {
	return o.Version() <= p.version || p.deleted && p.uid == o.UID()
}

// isTombstoned says that the object must not come back.
func (c *watchCache) isTombstoned(o *object.Object) bool {
	p, found := c.tombstones[keyOf(o)]
	return found && p.covers(o)
}

// pendingWrites are the versions that one view's writes made of an object, what
// they started from and what they led to.
type pendingWrites struct {
	view         *View
	base, latest *object.Object
	versions     []uint64
}

// isForeign says that a version came after the base and is none of ours.
func (w *pendingWrites) isForeign(version uint64) bool {
	return (w.base == nil || version > w.base.Version()) && !slices.Contains(w.versions, version)
}

// notification is an event and who is to hear of it: all but one view, or one alone.
type notification struct {
	Event
	except, only *View
}

func (n notification) isFor(v *View) bool { return v != n.except && (n.only == nil || n.only == v) }

func newWatchCache() watchCache {
	return watchCache{
		objects:       map[key]*object.Object{},
		index:         index{},
		tombstones:    map[key]tombstone{},
		pendingWrites: map[string]*pendingWrites{},
	}
}

// serverUpdated takes in an object that the API server says there is.
func (c *watchCache) serverUpdated(o *object.Object) []notification {
	notifications := c.store(o)
	c.advance(o.Version())
	return notifications
}

// store puts an object in place, unless it is history.
func (c *watchCache) store(o *object.Object) []notification {
	if c.isTombstoned(o) {
		return nil
	}
	old := c.objects[keyOf(o)]
	if old != nil && o.Version() <= old.Version() {
		return c.storeStale(o, old)
	}
	c.put(old, o)
	return []notification{{Event: Event{Old: old, New: o}}}
}

// storeStale takes in what a write of ours has overtaken. If somebody else made
// it, the writer has not heard of it yet.
func (c *watchCache) storeStale(o, current *object.Object) []notification {
	own := c.pendingWrites[o.UID()]
	if own == nil || !own.isForeign(o.Version()) {
		return nil
	}
	return []notification{{Event: Event{Old: own.base, New: current}, only: own.view}}
}

// serverDeleted takes in that the API server says an object is gone, or is not
// selected any more.
func (c *watchCache) serverDeleted(o *object.Object) []notification {
	defer c.advance(o.Version())
	if p := c.tombstones[keyOf(o)]; p.uid == o.UID() && p.version <= o.Version() {
		delete(c.tombstones, keyOf(o))
	}
	old := c.objects[keyOf(o)]
	if old == nil || old.Version() > o.Version() && (!c.serverFiltered || old.UID() != o.UID()) {
		return nil
	}
	c.put(old, nil)
	return []notification{{Event: Event{Old: old}}}
}

// advance takes in that the API server has sent all up to a version, and forgets
// what was remembered for until then.
func (c *watchCache) advance(version uint64) {
	c.latestVersion = max(c.latestVersion, version)
	if len(c.tombstones)+len(c.pendingWrites) == 0 {
		return
	}
	maps.DeleteFunc(c.tombstones, func(_ key, p tombstone) bool { return !p.deleted && p.version <= c.latestVersion })
	maps.DeleteFunc(c.pendingWrites, func(_ string, own *pendingWrites) bool { return own.latest.Version() <= c.latestVersion })
}

// writeReturned takes in what a write by a view returned.
func (c *watchCache) writeReturned(o *object.Object, by *View, selected bool) []notification {
	old := c.objects[keyOf(o)]
	overtaken := old != nil && o.Version() <= old.Version()
	if overtaken || o.Version() <= c.latestVersion || c.isTombstoned(o) || c.serverFiltered && old == nil {
		return nil
	}
	if !selected {
		return c.leftSelection(old, o, by)
	}
	c.trackWrite(o, old, by)
	c.put(old, o)
	return []notification{{Event: Event{Old: old, New: o}, except: by}}
}

// leftSelection takes in that a write put the object out of the selection. One of its
// name that is here was it, or was deleted before it.
func (c *watchCache) leftSelection(old, o *object.Object, by *View) []notification {
	c.tombstones[keyOf(o)] = tombstone{uid: o.UID(), version: o.Version()}
	if old == nil {
		return nil
	}
	c.put(old, nil)
	return []notification{{Event: Event{Old: old}, except: by}}
}

// trackWrite remembers a write until the API server sends it.
func (c *watchCache) trackWrite(o, old *object.Object, by *View) {
	if own := c.pendingWrites[o.UID()]; own != nil && own.view == by {
		own.latest, own.versions = o, append(own.versions, o.Version())
		return
	}
	if old != nil && old.UID() != o.UID() {
		old = nil
	}
	c.pendingWrites[o.UID()] = &pendingWrites{view: by, base: old, latest: o, versions: []uint64{o.Version()}}
}

// deleteReturned takes in that an object is gone after a delete by a view. One that is
// not here needs no memory: the API server's word of it came, or will come as a
// pair.
func (c *watchCache) deleteReturned(o *object.Object, by *View) []notification {
	old := c.objects[keyOf(o)]
	if old == nil || old.UID() != o.UID() {
		return nil
	}
	c.tombstones[keyOf(o)] = tombstone{uid: o.UID(), version: old.Version(), deleted: true}
	c.put(old, nil)
	return []notification{{Event: Event{Old: old}, except: by}}
}

// put files an object in place of another; either may be nil.
func (c *watchCache) put(old, current *object.Object) {
	if old != nil {
		c.bytes -= old.Size()
	}
	if current != nil {
		c.bytes += current.Size()
		c.objects[keyOf(current)] = current
		delete(c.tombstones, keyOf(current))
	} else {
		delete(c.objects, keyOf(old))
	}
	c.index.update(old, current)
}

// dropWritesOf forgets whose writes they were when a view closes.
func (c *watchCache) dropWritesOf(v *View) {
	maps.DeleteFunc(c.pendingWrites, func(_ string, own *pendingWrites) bool { return own.view == v })
}

// orphans lists what has no controller and matches, sorted.
func (c *watchCache) orphans(namespace string, selector labels.Selector) []*object.Object {
	var found []*object.Object
	add := func(o *object.Object) {
		here := namespace == "" || o.Namespace() == namespace
		if _, owned := o.Controller(); here && !owned && selector.Matches(o.Labels()) {
			found = append(found, o)
		}
	}
	keys, known := c.index.candidates(selector)
	for _, p := range keys {
		for _, o := range c.index[p].inNamespace(namespace) {
			add(o)
		}
	}
	if !known {
		for _, o := range c.objects {
			add(o)
		}
	}
	slices.SortFunc(found, byName)
	return found
}

// all lists every object, in no order.
func (c *watchCache) all() []*object.Object {
	list := make([]*object.Object, 0, len(c.objects))
	for _, o := range c.objects {
		list = append(list, o)
	}
	return list
}
