package related

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// pattern says which objects a rule selects, once it is checked and narrowed to
// what its parent may see.
type pattern struct {
	resource object.Resource
	// namespace is empty for any.
	namespace string
	// names are sorted; nil for any.
	names []string
	// labels are those of the object.
	labels labels.Selector
	// namespaceLabels are the labels of the object's namespace; nil for any.
	namespaceLabels labels.Selector
}

// identity is the same for patterns that select the same.
func (p *pattern) identity() string {
	spaces := "any"
	if p.namespaceLabels != nil {
		spaces = fmt.Sprintf("%q", p.namespaceLabels)
	}
	names := "any"
	if p.names != nil {
		names = fmt.Sprintf("%q", p.names)
	}
	return fmt.Sprintf("%v %q %s %q %s", p.resource, p.namespace, names, p.labels, spaces)
}

// matches says whether the pattern selects an object, as far as its namespace's
// labels have no part in it.
func (p *pattern) matches(o *object.Object) bool {
	return p.inNamespace(o.Namespace()) && p.hasName(o.Name()) && p.labels.Matches(o.Labels())
}

func (p *pattern) inNamespace(namespace string) bool {
	return p.namespace == "" || p.namespace == namespace
}

func (p *pattern) hasName(name string) bool {
	if p.names == nil {
		return true
	}
	_, found := slices.BinarySearch(p.names, name)
	return found
}

// namesAll says that a pattern names its objects in full.
func (p *pattern) namesAll() bool {
	return p.names != nil && (p.namespace != "" || !p.resource.Namespaced)
}

// maxNameWatches is up to how many names of a rule each gets a watch of its own.
const maxNameWatches = 4

// selections are the selections that bring what the pattern selects, and little
// else. One that names nothing needs none.
func (p *pattern) selections() []cache.Selection {
	if p.names == nil || len(p.names) > maxNameWatches && !isSecret(p.resource) {
		return []cache.Selection{{Resource: p.resource, Namespace: p.namespace, Labels: p.labels.String()}}
	}
	selections := make([]cache.Selection, len(p.names))
	for i, name := range p.names {
		selections[i] = cache.Selection{Resource: p.resource, Namespace: p.namespace, Name: name}
	}
	return selections
}

// isSecret says that nothing of a kind is read that no rule asks for, however
// many watches that takes. It also keeps to what a Role with resourceNames
// allows.
func isSecret(resource object.Resource) bool {
	return resource.GroupKind() == object.GroupKind{Kind: "Secret"}
}

// indexKeys are where the pattern is filed, so that an object finds it.
func (p *pattern) indexKeys() []indexKey {
	if p.names == nil {
		return selectorKeys(p.namespace, p.labels)
	}
	where := make([]indexKey, len(p.names))
	for i, name := range p.names {
		where[i] = indexKey{p.namespace, object.Label{Value: name}}
	}
	return where
}
