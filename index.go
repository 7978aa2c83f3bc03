package setpoint

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// Index finds objects of type T by keys, such as pods by the names of the Secrets that
// they mount. It is in memory, follows every change, and is filled before any handler of
// the app is called. It is safe for concurrent use.
type Index[T any, K comparable] struct{ index *sdk.Index[K] }

// NewIndex returns an index of the objects that the handlers select. The function keys
// must depend only on the object and be fast. An object may have no keys; if keys panics,
// the object has none, and the panic is logged. A kind may have an index without
// handlers.
func NewIndex[T any, K comparable](of *Handlers[T], keys func(o *T) []K) *Index[T, K] {
	if keys == nil {
		of.kind.AddProblem("NewIndex: the function is nil")
	}
	return &Index[T, K]{sdk.NewIndex(&of.kind.Controller, func(o *object.Object) []K {
		typed, err := sdk.DecodeObject[T](o)
		if err != nil {
			return nil
		}
		return keys(typed)
	})}
}

// Get returns copies of the objects with a key, sorted by namespace and name.
func (i *Index[T, K]) Get(key K) []*T {
	var all []*T
	for _, o := range i.index.Find(key) {
		if one, err := sdk.DecodeObject[T](o); err == nil { // Else it has no keys.
			all = append(all, one)
		}
	}
	return all
}
