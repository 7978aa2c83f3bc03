package cache

import (
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// key names an object within its kind.
type key struct{ namespace, name string }

func keyOf(o *object.Object) key { return key{o.Namespace(), o.Name()} }

// watchCache holds the objects of a watch, without locks or time. It receives events of the API
// server and the results of writes, in any order, and returns the notifications for views.
//
// It never goes back in time. Events arrive in the order of versions, so that all changes up to latestVersion are
// known. An older write changes nothing, even if the object is missing: then it has been deleted since.
type watchCache struct {
	objects map[key]*object.Object
	index   index
	bytes   int
	// lists counts complete lists.
	lists int
	// serverFiltered is set for field selectors, which only the API server evaluates. Then
	// writes add no objects, and a DELETED event counts even if a later write is known.
	serverFiltered bool
	// perObject is set if versions count the writes of one name: then an event says nothing about other objects.
	perObject bool

	// latestVersion is the newest version of an event.
	latestVersion uint64
	// tombstones are objects that must not be added again, although events about them are still to come.
	tombstones map[key]tombstone
	// pendingWrites are writes by UID whose events are still to come.
	pendingWrites map[string]*pendingWrites
}

// tombstone is a removed object whose DELETED event is still to come.
type tombstone struct {
	uid string
	// version is the newest known version. Events up to it are ignored.
	version uint64
	// deleted is set if the object was deleted, so that all its events are ignored.
	deleted bool
}

// isTombstoned reports whether the object must not be added.
func (c *watchCache) isTombstoned(o *object.Object) bool {
	t, found := c.tombstones[keyOf(o)]
	return found && (o.Version() <= t.version || t.deleted && t.uid == o.UID())
}

// pendingWrites are the versions that one view wrote of an object.
type pendingWrites struct {
	view         *View
	base, latest *object.Object
	versions     []uint64
}

// notification is an event for all views but one, or for one only.
type notification struct {
	Event
	except, only *View
}

func (n notification) isFor(v *View) bool { return v != n.except && (n.only == nil || n.only == v) }

func newWatchCache() watchCache {
	return watchCache{
		objects: map[key]*object.Object{}, index: index{}, tombstones: map[key]tombstone{},
		pendingWrites: map[string]*pendingWrites{},
	}
}

// serverUpdated handles an ADDED or MODIFIED event.
func (c *watchCache) serverUpdated(o *object.Object) []notification {
	notifications := c.store(o)
	c.eventArrived(o)
	return notifications
}

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

// storeStale handles an event that a write has overtaken. If another client made the change, the writer is notified.
func (c *watchCache) storeStale(o, current *object.Object) []notification {
	own := c.pendingWrites[o.UID()]
	if own == nil || own.base != nil && o.Version() <= own.base.Version() || slices.Contains(own.versions, o.Version()) {
		return nil
	}
	return []notification{{Event: Event{Old: own.base, New: current}, only: own.view}}
}

// serverDeleted handles a DELETED event: the object is deleted or no longer selected.
func (c *watchCache) serverDeleted(o *object.Object) []notification {
	if t := c.tombstones[keyOf(o)]; t.uid == o.UID() && t.version <= o.Version() {
		delete(c.tombstones, keyOf(o))
	}
	defer c.goneArrived(o)
	old := c.objects[keyOf(o)]
	if old == nil || old.Version() > o.Version() && (!c.serverFiltered || old.UID() != o.UID()) {
		return nil
	}
	c.put(old, nil)
	return []notification{{Event: Event{Old: old}}}
}

// eventArrived records that all events up to one have arrived.
func (c *watchCache) eventArrived(o *object.Object) {
	if !c.perObject {
		c.advance(o.Version())
		return
	}
	if own := c.pendingWrites[o.UID()]; own != nil && own.latest.Version() <= o.Version() {
		delete(c.pendingWrites, o.UID())
	}
}

// goneArrived is eventArrived for a DELETED event. With perObject, the tombstone stays for results of older writes.
func (c *watchCache) goneArrived(o *object.Object) {
	c.eventArrived(o)
	if t := c.tombstones[keyOf(o)]; c.perObject && c.objects[keyOf(o)] == nil && t.version < o.Version() {
		c.tombstones[keyOf(o)] = tombstone{uid: o.UID(), version: o.Version()}
	}
}

// advance records that all events up to a version have arrived, and drops what waits for them.
func (c *watchCache) advance(version uint64) {
	c.latestVersion = max(c.latestVersion, version)
	maps.DeleteFunc(c.tombstones, func(_ key, t tombstone) bool { return !t.deleted && t.version <= c.latestVersion })
	maps.DeleteFunc(c.pendingWrites, func(_ string, own *pendingWrites) bool { return own.latest.Version() <= c.latestVersion })
}

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
	notifications := []notification{{Event: Event{Old: old, New: o}, except: by}}
	if old != nil && old.UID() != o.UID() {
		// Another client has deleted the former object. Its event is older than the write, and will be ignored.
		notifications = append(notifications, notification{Event: Event{Old: old}, only: by})
	}
	return notifications
}

// leftSelection handles a write after which the object is no longer selected.
func (c *watchCache) leftSelection(old, o *object.Object, by *View) []notification {
	c.tombstones[keyOf(o)] = tombstone{uid: o.UID(), version: o.Version()}
	if old == nil {
		return nil
	}
	c.put(old, nil)
	return []notification{{Event: Event{Old: old}, except: by}}
}

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

// deleteReturned handles the result of a delete. A missing object needs no tombstone: events about it come in pairs.
func (c *watchCache) deleteReturned(o *object.Object, by *View) []notification {
	old := c.objects[keyOf(o)]
	if old == nil || old.UID() != o.UID() {
		return nil
	}
	c.tombstones[keyOf(o)] = tombstone{uid: o.UID(), version: old.Version(), deleted: true}
	c.put(old, nil)
	return []notification{{Event: Event{Old: old}, except: by}}
}

// put replaces an object; either may be nil.
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

// owned returns the objects that a UID in a namespace controls, sorted.
func (c *watchCache) owned(uid, namespace string) object.Sorted {
	return c.index[ownerKey(uid)].In(namespace)
}

// orphans returns the matching objects without a controller, sorted.
func (c *watchCache) orphans(namespace string, selector labels.Selector) []*object.Object {
	var found []*object.Object
	add := func(o *object.Object) {
		here := namespace == "" || o.Namespace() == namespace
		if _, owned := o.Controller(); here && !owned && selector.Matches(o.Labels()) {
			found = append(found, o)
		}
	}
	keys, known := c.index.candidates(selector)
	for _, k := range keys {
		for _, o := range c.index[k].In(namespace) {
			add(o)
		}
	}
	if !known {
		for _, o := range c.objects {
			add(o)
		}
	}
	slices.SortFunc(found, object.CompareNames)
	return found
}

func (c *watchCache) all() []*object.Object {
	return slices.AppendSeq(make([]*object.Object, 0, len(c.objects)), maps.Values(c.objects))
}

func (c *watchCache) replace(list []*object.Object, version uint64) []notification {
	c.lists++
	slices.SortFunc(list, object.CompareNames)
	if version < c.latestVersion {
		return c.reset(list, version)
	}
	notifications := c.resolveWrites(version)
	listed := make(map[key]string, len(list))
	for _, o := range list {
		listed[keyOf(o)] = o.UID()
		notifications = append(notifications, c.store(o)...)
	}
	// A tombstone is obsolete if the list is newer and lacks the object. Else the deletion is still to come.
	maps.DeleteFunc(c.tombstones, func(name key, t tombstone) bool { return t.version <= version && listed[name] != t.uid })
	c.advance(version)
	return append(notifications, c.dropUnlisted(listed)...)
}

// reset replaces everything by a list. A list older than known versions means that the
// storage of the API server was restored, so that all known versions are void.
func (c *watchCache) reset(list []*object.Object, version uint64) []notification {
	before, empty := c.objects, newWatchCache()
	empty.lists, empty.serverFiltered, empty.perObject, empty.latestVersion = c.lists, c.serverFiltered, c.perObject, version
	*c = empty
	notifications := make([]notification, 0, len(list))
	for _, o := range list {
		c.put(nil, o)
		notifications = append(notifications, notification{Event: Event{Old: before[keyOf(o)], New: o}})
		delete(before, keyOf(o))
	}
	for _, o := range before {
		notifications = append(notifications, notification{Event: Event{Old: o}})
	}
	return notifications
}

// resolveWrites notifies the writers of pending writes in a list: another client's change may have come between.
func (c *watchCache) resolveWrites(version uint64) []notification {
	var notifications []notification
	for _, own := range c.pendingWrites {
		if slices.Min(own.versions) <= version {
			notifications = append(notifications, notification{Event: Event{Old: own.base, New: own.latest}, only: own.view})
		}
	}
	return notifications
}

// dropUnlisted deletes objects that the list lacks, except newer writes.
func (c *watchCache) dropUnlisted(listed map[key]string) []notification {
	var notifications []notification
	for name, o := range c.objects {
		if _, found := listed[name]; !found && o.Version() <= c.latestVersion {
			c.put(o, nil)
			notifications = append(notifications, notification{Event: Event{Old: o}})
		}
	}
	return notifications
}

// indexKey is the UID of an object's controller or, without one, each of its labels. No label has an empty key.
type indexKey struct{ label, value string }

func ownerKey(uid string) indexKey { return indexKey{value: uid} }

// sameIn returns an equal key with strings of the object, and whether the object has it.
func (k indexKey) sameIn(o *object.Object) (same indexKey, found bool) {
	for same := range indexKeys(o) {
		if same == k {
			return same, true
		}
	}
	return k, false
}

// indexKeys returns the keys of an object; none for nil.
func indexKeys(o *object.Object) iter.Seq[indexKey] {
	return func(yield func(indexKey) bool) {
		if o == nil {
			return
		}
		if owner, owned := o.Controller(); owned {
			yield(ownerKey(owner.UID))
			return
		}
		for label := range o.Labels().All() {
			if !yield(indexKey{label.Key, label.Value}) {
				return
			}
		}
	}
}

type index map[indexKey]object.Sorted

// update replaces an object. Old is nil for an added object, current for a deleted one; else both have the same name.
func (x index) update(old, current *object.Object) {
	for k := range indexKeys(old) {
		if _, stays := k.sameIn(current); !stays {
			x.remove(k, old)
		}
	}
	for k := range indexKeys(current) {
		objects := x[k]
		objects.Put(current)
		x[k] = objects
	}
}

func (x index) remove(k indexKey, o *object.Object) {
	rest := x[k]
	rest.Remove(o)
	if len(rest) == 0 {
		delete(x, k)
		return
	}
	k, _ = k.sameIn(rest[0]) // Strings of a removed object would keep it in memory.
	x[k] = rest
}

// candidates returns the fewest keys that cover all orphans a selector can match; unknown if it requires no equality.
func (x index) candidates(selector labels.Selector) (keys []indexKey, known bool) {
	requirements, _ := selector.Requirements()
	fewest := 0
	for _, r := range requirements {
		if !slices.Contains([]selection.Operator{selection.Equals, selection.DoubleEquals, selection.In}, r.Operator()) {
			continue
		}
		// A key per value: their objects are disjoint.
		candidates := lists.Map(r.ValuesUnsorted(), func(value string) indexKey { return indexKey{r.Key(), value} })
		size := 0
		for _, k := range candidates {
			size += len(x[k])
		}
		if !known || size < fewest {
			keys, fewest, known = candidates, size, true
		}
	}
	return keys, known
}
