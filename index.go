package setpoint

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Index finds objects of type T by keys, such as pods by the names of the Secrets that
// they mount. It is in memory, follows every change, and is filled before any handler of
// the app is called. It is safe for concurrent use.
type Index[T any, K comparable] struct {
	app      *App
	keys     func(o *T) []K
	perWatch instances[watchIndex[K]]
}

// NewIndex returns an index of the objects that the handlers select. The function keys
// must depend only on the object and be fast. An object may have no keys; if keys panics,
// the object has none, and the panic is logged. A kind may have an index without
// handlers.
func NewIndex[T any, K comparable](of *Handlers[T], keys func(o *T) []K) *Index[T, K] {
	i := &Index[T, K]{app: of.c.app, keys: keys}
	if keys == nil {
		of.c.app.addProblem("NewIndex: the function is nil")
	}
	of.c.indexes = append(of.c.indexes, i)
	return i
}

// Get returns copies of the objects with a key, sorted by namespace and name.
func (i *Index[T, K]) Get(key K) []*T {
	var all []*T
	for _, o := range i.find(key) {
		if one, err := decodeObject[T](o); err == nil { // Else it has no keys.
			all = append(all, one)
		}
	}
	return all
}

func (i *Index[T, K]) find(key K) []*object.Object {
	s := i.perWatch.first()
	if s == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Values(s.objects[key]), func(a, b *object.Object) int {
		return cmp.Or(cmp.Compare(a.Namespace(), b.Namespace()), cmp.Compare(a.Name(), b.Name()))
	})
}

// watchIndex has the objects of one watch.
type watchIndex[K comparable] struct {
	mu      sync.RWMutex
	objects map[K]map[objectKey]*object.Object
	keys    map[objectKey][]K
}

type objectKey struct{ namespace, name string }

func keyOf(o *object.Object) objectKey { return objectKey{o.Namespace(), o.Name()} }

// startWatch adds a watchIndex. It returns the event handler of the watch and a function
// that removes the watchIndex.
func (i *Index[T, K]) startWatch() (changed func(cache.Event), stop func()) {
	s := &watchIndex[K]{objects: map[K]map[objectKey]*object.Object{}, keys: map[objectKey][]K{}}
	return func(e cache.Event) { i.change(s, e) }, i.perWatch.add(s)
}

func (i *Index[T, K]) keysOf(o *object.Object) (keys []K) {
	typed, err := decodeObject[T](o)
	if typed == nil || err != nil {
		return nil
	}
	err = failure.Recover("the keys of an index", func() error {
		keys = i.keys(typed)
		return nil
	})
	if stack, crashed := failure.PanicStack(err); crashed {
		i.app.logger().Error("index crashed", "object", o.Ref().String(), "error", failure.OneLine(err), "stack", stack)
	}
	return keys
}

func (i *Index[T, K]) change(s *watchIndex[K], e cache.Event) {
	keys := i.keysOf(e.New)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Old != nil {
		s.remove(keyOf(e.Old))
	}
	if e.New != nil {
		s.put(e.New, keys)
	}
}

func (s *watchIndex[K]) remove(at objectKey) {
	for _, key := range s.keys[at] {
		delete(s.objects[key], at)
		if len(s.objects[key]) == 0 {
			delete(s.objects, key)
		}
	}
	delete(s.keys, at)
}

func (s *watchIndex[K]) put(o *object.Object, keys []K) {
	at := keyOf(o)
	s.remove(at)
	for _, key := range keys {
		if s.objects[key] == nil {
			s.objects[key] = map[objectKey]*object.Object{}
		}
		s.objects[key][at] = o
	}
	if len(keys) > 0 {
		s.keys[at] = keys
	}
}
