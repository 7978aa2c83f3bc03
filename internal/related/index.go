package related

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/selector"
)

// indexKey is a key of the index: the namespace in which a rule selects, or "" for any, and a label
// that it requires, a name as the value of an empty label, or nothing.
type indexKey struct {
	namespace string
	label     object.Label
}

// index finds the rules that may select an object.
type index map[indexKey][]*rule

func (x index) add(r *rule, where []indexKey) {
	for _, p := range where {
		x[p] = append(x[p], r)
	}
}

func (x index) remove(r *rule, where []indexKey) {
	for _, p := range where {
		x[p] = slices.DeleteFunc(x[p], func(other *rule) bool { return other == r })
		if len(x[p]) == 0 {
			delete(x, p)
		}
	}
}

// of yields each rule that may select the object once.
func (x index) of(o *object.Object) iter.Seq[*rule] {
	return func(yield func(*rule) bool) {
		if o == nil {
			return
		}
		for p := range indexKeysOf(o) {
			for _, r := range x[p] {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// indexKeysOf yields the keys of rules that may select an object.
func indexKeysOf(o *object.Object) iter.Seq[indexKey] {
	return func(yield func(indexKey) bool) {
		in := func(namespace string) bool {
			for label := range o.Labels().All() {
				if !yield(indexKey{namespace, label}) {
					return false
				}
			}
			return yield(indexKey{namespace, object.Label{Value: o.Name()}}) && yield(indexKey{namespace: namespace})
		}
		if in("") && o.Namespace() != "" {
			in(o.Namespace())
		}
	}
}

// selectorKeys returns keys with the labels that a selector requires.
func selectorKeys(namespace string, of labels.Selector) []indexKey {
	required := selector.RequiredLabels(of)
	if required == nil {
		return []indexKey{{namespace: namespace}}
	}
	return lists.Map(required, func(label object.Label) indexKey { return indexKey{namespace, label} })
}
