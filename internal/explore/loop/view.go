package loop

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// View is what the cache of a process has seen: the events of each object up to some version, and the results
// of the process's own writes whose events are still to come. It is immutable; the zero value is empty.
type View struct {
	// kinds are sorted by resource.
	kinds []seenKind
	// writes are those whose events are still to come, in order.
	writes []cache.Write
}

// seenKind is what events have said of one kind.
type seenKind struct {
	resource object.Resource
	// objects are sorted by namespace and name.
	objects []*object.Object
}

// Event is an event of a watch. The object is as it is now or, if deleted, as it was, with the version of
// the deletion.
type Event struct {
	Resource object.Resource
	Object   *object.Object
	Deleted  bool
}

// NewView returns the view of a process that has just listed all objects. Those of unknown kinds are left out.
func NewView(objects []*object.Object, resourceOf func(object.GroupKind) (object.Resource, bool)) *View {
	v := &View{}
	for _, o := range objects {
		resource, served := resourceOf(o.GroupKind())
		if !served {
			continue
		}
		at, known := v.find(resource)
		if !known {
			v.kinds = slices.Insert(v.kinds, at, seenKind{resource: resource})
		}
		kind := &v.kinds[at]
		kind.objects = append(kind.objects, o)
	}
	for i := range v.kinds {
		slices.SortFunc(v.kinds[i].objects, compareNames)
	}
	return v
}

// Seen returns the objects of a kind as of the latest events.
func (v *View) Seen(resource object.Resource) []*object.Object {
	at, known := v.find(resource)
	if !known {
		return nil
	}
	return v.kinds[at].objects
}

// After returns the view after an event. Events of one object come in the order of their versions.
func (v *View) After(e Event) *View {
	next := v.clone()
	at, known := next.find(e.Resource)
	if !known {
		next.kinds = slices.Insert(next.kinds, at, seenKind{resource: e.Resource})
	}
	kind := &next.kinds[at]
	kind.objects = slices.Clone(kind.objects)
	switch i, found := slices.BinarySearchFunc(kind.objects, e.Object, compareNames); {
	case found && e.Deleted:
		kind.objects = slices.Delete(kind.objects, i, i+1)
	case found:
		kind.objects[i] = e.Object
	case !e.Deleted:
		kind.objects = slices.Insert(kind.objects, i, e.Object)
	}
	return next
}

// Observe returns the view after own writes whose events are still to come.
func (v *View) Observe(writes ...cache.Write) *View {
	next := v.clone()
	next.writes = slices.Concat(next.writes, writes)
	return next
}

func (v *View) clone() *View { return &View{kinds: slices.Clone(v.kinds), writes: v.writes} }

// observed returns the kinds with the own writes.
func (v *View) observed() []seenKind {
	if len(v.writes) == 0 {
		return v.kinds
	}
	seen := &View{kinds: v.kinds}
	for _, w := range v.writes {
		seen = seen.After(Event{Resource: w.Selection.Resource, Object: w.Object, Deleted: w.Deleted})
	}
	return seen.kinds
}

// Get returns an object as the process sees it, or nil.
func (v *View) Get(resource object.Resource, namespace, name string) *object.Object {
	for _, o := range (&View{kinds: v.observed()}).Seen(resource) {
		if o.Namespace() == namespace && o.Name() == name {
			return o
		}
	}
	return nil
}

// digest identifies what is in the view, in this process.
func (v *View) digest() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, kind := range v.observed() {
		maphash.WriteComparable(&h, kind.resource)
		for _, o := range kind.objects {
			writeObject(&h, o)
		}
	}
	return h.Sum64()
}

// seed is that of all digests: they are valid in this process only.
var seed = maphash.MakeSeed()

// writeObject adds an object with its version.
func writeObject(h *maphash.Hash, o *object.Object) {
	maphash.WriteComparable(h, o.Digest())
	maphash.WriteComparable(h, o.Version())
}

func (v *View) find(resource object.Resource) (int, bool) {
	return slices.BinarySearchFunc(v.kinds, resource, func(kind seenKind, resource object.Resource) int {
		return cmp.Or(cmp.Compare(kind.resource.Group, resource.Group), cmp.Compare(kind.resource.Kind, resource.Kind),
			cmp.Compare(kind.resource.Version, resource.Version))
	})
}

func compareNames(a, b *object.Object) int {
	return cmp.Or(cmp.Compare(a.Namespace(), b.Namespace()), cmp.Compare(a.Name(), b.Name()))
}

// Item is an object to reconcile. It is immutable.
type Item struct {
	queue.Item

	// Program is the index of the program.
	Program int
	// events are those that handlers have not seen.
	events []cache.Event
}

// Merge returns one item for two of the same key.
func (i Item) Merge(newer Item) Item {
	causes := queue.NewCauses(i.Causes.List()...)
	causes.Merge(newer.Causes)
	i.Causes = causes
	i.events = slices.Concat(i.events, newer.events)
	return i
}

// decisiveCauses are those that change what a run does in a process that has just started. All others only
// bring about the run.
var decisiveCauses = []queue.CauseKind{queue.RelatedChanged, queue.ReconcileRequested, queue.HookChanged}

// Digest identifies what the item makes a run do.
func (i Item) Digest() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, i.Program)
	maphash.WriteComparable(&h, i.Key)
	for _, kind := range decisiveCauses {
		maphash.WriteComparable(&h, i.Causes.Has(kind))
	}
	for _, e := range i.events {
		if e.Old != nil {
			writeObject(&h, e.Old)
		}
		maphash.WriteComparable(&h, e.New != nil)
		if e.New != nil {
			writeObject(&h, e.New)
		}
	}
	return h.Sum64()
}

// Retry returns the item of a run that is to be repeated, by its outcome or by a delay that it chose.
func (i Item) Retry(kind queue.CauseKind) Item {
	return Item{Item: queue.Item{Key: i.Key, Causes: queue.NewCauses(queue.Cause{Kind: kind})}, Program: i.Program}
}
