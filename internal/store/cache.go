package store

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// key names an object within its kind.
type key struct{ namespace, name string }

func keyOf(o *object.Object) key { return key{o.Namespace(), o.Name()} }

// cache is what a watch knows, without locks or time. It takes in what the API
// server says and what our own writes returned, in whatever order the two
// arrive, and answers with what there is to tell.
//
// It never goes back in time. The API server's word comes in the order of
// versions, so everything up to seen has been heard; a write that is not newer
// brings nothing, even for an object that is not here: then it has been deleted
// since.
type cache struct {
	objects map[key]*object.Object
	index   index
	bytes   int
	// blind says that only the API server knows what is selected: what is not here
	// is not taken in from a write, and what it says is gone is, although a write of
	// ours came later.
	blind bool

	// seen is the newest version that the API server has sent.
	seen uint64
	// past says of names that are not here what must not come back, although the
	// API server has yet to send it.
	past map[key]past
	// writes are our own writes, by UID, that the API server has not sent yet.
	writes map[string]*writes
}

// past is the end of an object of which we know before the API server says so.
type past struct {
	uid string
	// known is the newest version we know of: everything up to it is history.
	known uint64
	// gone says that the object was deleted: all that may come of it is history.
	gone bool
}

func (p past) includes(o *object.Object) bool {
	return o.Version() <= p.known || p.gone && p.uid == o.UID()
}

// isPast says that the object must not come back.
func (c *cache) isPast(o *object.Object) bool {
	p, found := c.past[keyOf(o)]
	return found && p.includes(o)
}

// writes are the versions that one view's writes made of an object, what
// they started from and what they led to.
type writes struct {
	by           *View
	base, latest *object.Object
	versions     []uint64
}

// between says that a version came after the base and is none of ours.
func (w *writes) between(version uint64) bool {
	return (w.base == nil || version > w.base.Version()) && !slices.Contains(w.versions, version)
}

// notice is an event and who is to hear of it: all but one view, or one alone.
type notice struct {
	Event
	except, only *View
}

func (n notice) isFor(v *View) bool { return v != n.except && (n.only == nil || n.only == v) }

func newCache() cache {
	return cache{
		objects: map[key]*object.Object{},
		index:   index{},
		past:    map[key]past{},
		writes:  map[string]*writes{},
	}
}

// observed takes in an object that the API server says there is.
func (c *cache) observed(o *object.Object) []notice {
	notices := c.take(o)
	c.heard(o.Version())
	return notices
}

// take puts an object in place, unless it is history.
func (c *cache) take(o *object.Object) []notice {
	if c.isPast(o) {
		return nil
	}
	old := c.objects[keyOf(o)]
	if old != nil && o.Version() <= old.Version() {
		return c.overtaken(o, old)
	}
	c.put(old, o)
	return []notice{{Event: Event{Old: old, New: o}}}
}

// overtaken takes in what a write of ours has overtaken. If somebody else made
// it, the writer has not heard of it yet.
func (c *cache) overtaken(o, current *object.Object) []notice {
	own := c.writes[o.UID()]
	if own == nil || !own.between(o.Version()) {
		return nil
	}
	return []notice{{Event: Event{Old: own.base, New: current}, only: own.by}}
}

// deleted takes in that the API server says an object is gone, or is not
// selected any more.
func (c *cache) deleted(o *object.Object) []notice {
	defer c.heard(o.Version())
	if p := c.past[keyOf(o)]; p.uid == o.UID() && p.known <= o.Version() {
		delete(c.past, keyOf(o))
	}
	old := c.objects[keyOf(o)]
	if old == nil || old.Version() > o.Version() && (!c.blind || old.UID() != o.UID()) {
		return nil
	}
	c.put(old, nil)
	return []notice{{Event: Event{Old: old}}}
}

// heard takes in that the API server has sent all up to a version, and forgets
// what was remembered for until then.
func (c *cache) heard(version uint64) {
	c.seen = max(c.seen, version)
	if len(c.past)+len(c.writes) == 0 {
		return
	}
	maps.DeleteFunc(c.past, func(_ key, p past) bool { return !p.gone && p.known <= c.seen })
	maps.DeleteFunc(c.writes, func(_ string, own *writes) bool { return own.latest.Version() <= c.seen })
}

// wrote takes in what a write by a view returned.
func (c *cache) wrote(o *object.Object, by *View, selected bool) []notice {
	old := c.objects[keyOf(o)]
	overtaken := old != nil && o.Version() <= old.Version()
	if overtaken || o.Version() <= c.seen || c.isPast(o) || c.blind && old == nil {
		return nil
	}
	if !selected {
		return c.left(old, o, by)
	}
	c.await(o, old, by)
	c.put(old, o)
	return []notice{{Event: Event{Old: old, New: o}, except: by}}
}

// left takes in that a write put the object out of the selection. One of its
// name that is here was it, or was deleted before it.
func (c *cache) left(old, o *object.Object, by *View) []notice {
	c.past[keyOf(o)] = past{uid: o.UID(), known: o.Version()}
	if old == nil {
		return nil
	}
	c.put(old, nil)
	return []notice{{Event: Event{Old: old}, except: by}}
}

// await remembers a write until the API server sends it.
func (c *cache) await(o, old *object.Object, by *View) {
	if own := c.writes[o.UID()]; own != nil && own.by == by {
		own.latest, own.versions = o, append(own.versions, o.Version())
		return
	}
	if old != nil && old.UID() != o.UID() {
		old = nil
	}
	c.writes[o.UID()] = &writes{by: by, base: old, latest: o, versions: []uint64{o.Version()}}
}

// removed takes in that an object is gone after a delete by a view. One that is
// not here needs no memory: the API server's word of it came, or will come as a
// pair.
func (c *cache) removed(o *object.Object, by *View) []notice {
	old := c.objects[keyOf(o)]
	if old == nil || old.UID() != o.UID() {
		return nil
	}
	c.past[keyOf(o)] = past{uid: o.UID(), known: old.Version(), gone: true}
	c.put(old, nil)
	return []notice{{Event: Event{Old: old}, except: by}}
}

// put files an object in place of another; either may be nil.
func (c *cache) put(old, current *object.Object) {
	if old != nil {
		c.bytes -= old.Size()
	}
	if current != nil {
		c.bytes += current.Size()
		c.objects[keyOf(current)] = current
		delete(c.past, keyOf(current))
	} else {
		delete(c.objects, keyOf(old))
	}
	c.index.move(old, current)
}

// disown forgets whose writes they were when a view closes.
func (c *cache) disown(v *View) {
	maps.DeleteFunc(c.writes, func(_ string, own *writes) bool { return own.by == v })
}

// orphans lists what has no controller and matches, sorted.
func (c *cache) orphans(namespace string, selector labels.Selector) []*object.Object {
	var found []*object.Object
	add := func(o *object.Object) {
		here := namespace == "" || o.Namespace() == namespace
		if _, owned := o.Controller(); here && !owned && selector.Matches(o.Labels()) {
			found = append(found, o)
		}
	}
	where, known := c.index.narrow(selector)
	for _, p := range where {
		for _, o := range c.index[p].in(namespace) {
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
func (c *cache) all() []*object.Object {
	list := make([]*object.Object, 0, len(c.objects))
	for _, o := range c.objects {
		list = append(list, o)
	}
	return list
}
