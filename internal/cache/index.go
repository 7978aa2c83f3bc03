package cache

import (
	"cmp"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// indexKey is a key of the index: the UID of an object's controller or, without one, each of
// its labels. No label has an empty key, so one map holds both.
type indexKey struct{ label, value string }

func ownerKey(uid string) indexKey { return indexKey{value: uid} }

// matches reports whether the object has the key.
func (k indexKey) matches(o *object.Object) bool {
	owner, owned := o.Controller()
	if k.label == "" || owned {
		return k.label == "" && owned && owner.UID == k.value
	}
	value, found := o.Labels().Lookup(k.label)
	return found && value == k.value
}

// withStringsOf returns an equal key with strings of the object. Strings of a removed object
// would keep it in memory.
func (k indexKey) withStringsOf(o *object.Object) indexKey {
	for same := range indexKeys(o) {
		if same == k {
			return same
		}
	}
	return k
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

// index finds objects by key.
type index map[indexKey]sortedObjects

// update replaces an object. Old is nil for an added object, current for a deleted one;
// otherwise both have the same name.
func (x index) update(old, current *object.Object) {
	for k := range indexKeys(old) {
		if current == nil || !k.matches(current) {
			x.remove(k, old)
		}
	}
	for k := range indexKeys(current) {
		x[k] = x[k].with(current)
	}
}

func (x index) remove(k indexKey, o *object.Object) {
	if rest := x[k].without(o); len(rest) > 0 {
		x[k.withStringsOf(rest[0])] = rest
	} else {
		delete(x, k)
	}
}

// candidates returns the fewest keys that cover all orphans the selector can match. It is
// unknown for selectors without an equality.
func (x index) candidates(selector labels.Selector) (keys []indexKey, known bool) {
	requirements, _ := selector.Requirements()
	fewest := 0
	for _, r := range requirements {
		if !requiresValue(r.Operator()) {
			continue
		}
		candidates := requirementKeys(r)
		if size := x.size(candidates); !known || size < fewest {
			keys, fewest, known = candidates, size, true
		}
	}
	return keys, known
}

func requiresValue(operator selection.Operator) bool {
	return operator == selection.Equals || operator == selection.DoubleEquals || operator == selection.In
}

// requirementKeys returns a key per value of the requirement. Their objects are disjoint.
func requirementKeys(r labels.Requirement) []indexKey {
	return lists.Map(r.ValuesUnsorted(), func(value string) indexKey { return indexKey{r.Key(), value} })
}

func (x index) size(keys []indexKey) int {
	size := 0
	for _, k := range keys {
		size += len(x[k])
	}
	return size
}

// sortedObjects is a set of objects sorted by namespace and name. It takes eight bytes per
// object, and most sets are small.
type sortedObjects []*object.Object

// byName orders objects by namespace and name.
func byName(a, b *object.Object) int {
	return cmp.Or(cmp.Compare(a.Namespace(), b.Namespace()), cmp.Compare(a.Name(), b.Name()))
}

// with adds an object, or replaces the one of its name.
func (s sortedObjects) with(o *object.Object) sortedObjects {
	if len(s) == 0 || byName(s[len(s)-1], o) < 0 {
		return append(s, o) // lists are sorted
	}
	at, found := slices.BinarySearchFunc(s, o, byName)
	if found {
		s[at] = o
		return s
	}
	return slices.Insert(s, at, o)
}

func (s sortedObjects) without(o *object.Object) sortedObjects {
	at, found := slices.BinarySearchFunc(s, o, byName)
	if !found {
		return s
	}
	return slices.Delete(s, at, at+1)
}

// inNamespace returns the objects of one namespace, or all if it is empty.
func (s sortedObjects) inNamespace(namespace string) sortedObjects {
	if namespace == "" {
		return s
	}
	from, _ := slices.BinarySearchFunc(s, namespace, compareNamespace)
	s = s[from:]
	to, _ := slices.BinarySearchFunc(s, namespace+"\x00", compareNamespace)
	return s[:to]
}

func compareNamespace(o *object.Object, namespace string) int {
	return cmp.Compare(o.Namespace(), namespace)
}

// View is one client's view of a watch.
type View struct {
	watch         *watch
	handle        func(Event)
	release       func()
	ready         chan struct{}
	readyOrFailed chan struct{}

	// Guarded by watch.deliverMu.
	readyOrFailedClosed, closed bool
}

// Get returns an object, or nil.
func (v *View) Get(namespace, name string) *object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.objects[key{namespace, name}]
}

// Owned returns the objects that an owner controls, sorted by namespace and name. Those of a namespaced owner
// are in its namespace: an owner reference from elsewhere is invalid or forged, and the garbage collector
// does not remove it as long as the object has a finalizer.
func (v *View) Owned(owner *object.Object) []*object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return slices.Clone(v.watch.cache.owned(owner.UID(), owner.Namespace()))
}

// CountOwned returns the number of objects of Owned, for an owner's UID and namespace.
func (v *View) CountOwned(uid, namespace string) int {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return len(v.watch.cache.owned(uid, namespace))
}

// Orphans returns the objects without a controller that match the selector, sorted by
// namespace and name. An empty namespace means all.
func (v *View) Orphans(namespace string, selector labels.Selector) []*object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.orphans(namespace, selector)
}

// All iterates over the current objects, in no order.
func (v *View) All() iter.Seq[*object.Object] { return slices.Values(v.snapshot()) }

// snapshot allows callers of All to use the view meanwhile.
func (v *View) snapshot() []*object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.all()
}

// Len returns the number of objects.
func (v *View) Len() int {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return len(v.watch.cache.objects)
}

// Version returns the resource version up to which all events have arrived.
func (v *View) Version() uint64 {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.latestVersion
}

// Ready is closed when all objects have been listed and passed to the handler.
func (v *View) Ready() <-chan struct{} { return v.ready }

// ReadyOrFailed is closed with Ready, or earlier when the watch fails: see Err.
func (v *View) ReadyOrFailed() <-chan struct{} { return v.readyOrFailed }

// Synced reports whether Ready is closed.
func (v *View) Synced() bool {
	select {
	case <-v.ready:
		return true
	default:
		return false
	}
}

// Err returns the error of the watch, which is retried; nil while it works.
func (v *View) Err() error { return v.watch.health.current() }

// ObserveWrite stores the result of a write, so that it is read at once, unless the cache has
// a newer version. It notifies the handlers of other views. The handler of this view is
// notified only if another client's change came between.
func (v *View) ObserveWrite(o *object.Object) {
	w := v.watch
	selected := w.selects(o)
	v.noteWrite(o, false)
	w.apply(func(c *watchCache) []notification { return c.writeReturned(o, v, selected) })
}

// ObserveDelete removes an object that this client deleted, and notifies the handlers of
// other views.
func (v *View) ObserveDelete(o *object.Object) {
	v.noteWrite(o, true)
	v.watch.apply(func(c *watchCache) []notification { return c.deleteReturned(o, v) })
}

// Close closes the view. Its handler does not run after Close.
func (v *View) Close() {
	v.watch.removeView(v)
	v.release()
}
