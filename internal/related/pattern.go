package related

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/selector"
)

// pattern selects objects. It is a validated rule, limited to what its parent may read.
type pattern struct {
	resource        object.Resource
	namespace       string   // empty for any
	names           []string // sorted; nil for any
	labels          labels.Selector
	namespaceLabels labels.Selector // of the labels of namespaces; nil for any
}

// matches reports whether an object matches. It does not check the labels of its namespace.
func (p *pattern) matches(o *object.Object) bool {
	inNamespace := p.namespace == "" || p.namespace == o.Namespace()
	_, named := slices.BinarySearch(p.names, o.Name())
	return inNamespace && (named || p.names == nil) && p.labels.Matches(o.Labels())
}

// namesAll reports whether a pattern has the full names of its objects.
func (p *pattern) namesAll() bool {
	return p.names != nil && (p.namespace != "" || !p.resource.Namespaced)
}

// maxNameWatches is how many names of a rule get a watch each.
const maxNameWatches = 4

// selections returns the narrowest selections that cover the pattern. A pattern with no names needs none.
func (p *pattern) selections() []cache.Selection {
	if p.names == nil || len(p.names) > maxNameWatches && !p.readsByName() {
		return []cache.Selection{{Resource: p.resource, Namespace: p.namespace, Labels: p.labels.String()}}
	}
	return lists.Map(p.names, func(name string) cache.Selection {
		return cache.Selection{Resource: p.resource, Namespace: p.namespace, Name: name}
	})
}

// readsByName makes Secrets an exception: only those that a rule names are read, as Roles with resourceNames allow.
func (p *pattern) readsByName() bool { return p.resource.GroupKind().IsSecret() }

func (p *pattern) indexKeys() []indexKey {
	if p.names == nil {
		return selectorKeys(p.namespace, p.labels)
	}
	return lists.Map(p.names, func(name string) indexKey { return indexKey{p.namespace, object.Label{Value: name}} })
}

// indexKey is a key of the index: the namespace in which a rule selects, or "" for any, and a label
// that it requires, a name as the value of an empty label, or nothing.
type indexKey struct {
	namespace string
	label     object.Label
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
func selectorKeys(namespace string, by labels.Selector) []indexKey {
	required := selector.RequiredLabels(by)
	if required == nil {
		return []indexKey{{namespace: namespace}}
	}
	return lists.Map(required, func(label object.Label) indexKey { return indexKey{namespace, label} })
}
