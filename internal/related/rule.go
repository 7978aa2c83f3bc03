package related

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// rule is a pattern with the objects it selects. Rule sets share it. The registry's lock guards it.
type rule struct {
	pattern
	kind *usedKind
	// key is the identity of the pattern, serial the order of creation.
	key    string
	serial uint64
	// ruleSets are the sets that contain the rule.
	ruleSets map[*ruleSet]struct{}

	// watches are the watches of the rule. A rule without names has none. listed means that all have
	// synced, so that events update the objects.
	watches []*sharedWatch
	listed  bool
	// namespaceWatch watches the labels of namespaces; nil if they do not matter.
	namespaceWatch *sharedWatch
	// matchingNamespaces are the namespaces whose labels match.
	matchingNamespaces map[string]bool

	objects object.Sorted
}

// indexKeys returns the keys of the rule. A rule that selects namespaces by labels has keys for
// each of these namespaces.
func (r *rule) indexKeys() []indexKey {
	if r.namespaceLabels == nil {
		return r.pattern.indexKeys()
	}
	var where []indexKey
	for name := range r.matchingNamespaces {
		where = append(where, selectorKeys(name, r.labels)...)
	}
	return where
}

func (r *rule) selects(o *object.Object) bool {
	return r.matches(o) && (r.namespaceLabels == nil || r.matchingNamespaces[o.Namespace()])
}

// objectChanged updates an object and enqueues the parents if that makes a difference.
func (r *rule) objectChanged(c change) {
	if c.current != nil && !r.selects(c.current) {
		c.current = nil
	}
	var before *object.Object
	if c.current != nil {
		before = r.objects.Put(c.current)
	} else {
		before = r.objects.Remove(c.object)
	}
	if before == c.current {
		return
	}
	r.invalidate()
	if before == nil || c.current == nil || before.Digest() != c.current.Digest() {
		r.enqueue(c.object)
	}
}

// namespaceChanged adds or removes the objects of a namespace whose labels changed.
func (r *rule) namespaceChanged(c change) {
	name := c.object.Name()
	isMatching := c.current != nil && r.namespaceLabels.Matches(c.current.Labels())
	if isMatching == r.matchingNamespaces[name] {
		return
	}
	before := len(r.objects)
	if isMatching {
		r.addNamespace(name)
	} else {
		r.removeNamespace(name)
	}
	if len(r.objects) != before {
		r.invalidate()
		r.enqueue(c.object)
	}
}

func (r *rule) addNamespace(namespace string) {
	r.matchingNamespaces[namespace] = true
	for _, t := range r.watches {
		t.index.add(r, selectorKeys(namespace, r.labels))
		for o := range t.view.All() {
			if o.Namespace() == namespace && r.selects(o) {
				r.objects.Put(o)
			}
		}
	}
}

func (r *rule) removeNamespace(namespace string) {
	delete(r.matchingNamespaces, namespace)
	for _, t := range r.watches {
		t.index.remove(r, selectorKeys(namespace, r.labels))
	}
	r.objects = slices.DeleteFunc(r.objects, func(o *object.Object) bool { return o.Namespace() == namespace })
}

func (r *rule) findNamespaces() {
	if r.namespaceLabels == nil || r.matchingNamespaces != nil {
		return
	}
	r.matchingNamespaces = map[string]bool{}
	for ns := range r.namespaceWatch.view.All() {
		if r.namespaceLabels.Matches(ns.Labels()) {
			r.matchingNamespaces[ns.Name()] = true
		}
	}
}

func (r *rule) invalidate() {
	for a := range r.ruleSets {
		a.snapshot = nil
	}
}

// enqueue enqueues the parents that do not wait for a watch.
func (r *rule) enqueue(changed *object.Object) {
	for a := range r.ruleSets {
		if a.synced {
			a.enqueue(changed)
		}
	}
}

// register adds the rule to the indexes of its watches, whose objects it has.
func (r *rule) register() {
	if r.namespaceWatch != nil {
		r.namespaceWatch.index.add(r, selectorKeys("", r.namespaceLabels))
	}
	for _, t := range r.watches {
		t.index.add(r, r.indexKeys())
	}
	r.listed = true
	r.invalidate()
	for a := range r.ruleSets {
		a.checkSynced()
	}
}

func (r *rule) close() {
	for _, t := range r.watches {
		t.index.remove(r, r.indexKeys())
		t.release(r)
	}
	if r.namespaceWatch != nil {
		r.namespaceWatch.index.remove(r, selectorKeys("", r.namespaceLabels))
		r.namespaceWatch.release(r)
	}
}

func (r *rule) pendingWatches() []*sharedWatch {
	pending := slices.Clone(r.watches)
	if r.namespaceWatch != nil {
		pending = append(pending, r.namespaceWatch)
	}
	return slices.DeleteFunc(pending, func(t *sharedWatch) bool { return t.synced })
}
