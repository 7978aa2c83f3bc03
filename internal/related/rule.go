package related

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// rule is a pattern with the objects it selects. Rule sets share it. The registry's lock guards it.
type rule struct {
	pattern
	kind *kindRules
	// key is the identity of the pattern, serial the order of creation.
	key    string
	serial uint64
	// ruleSets are the sets that contain the rule.
	ruleSets indexedSet[*ruleSet]

	// current are the watches of the rule; nil until all have synced. next replaces them; nil if
	// nothing changes. A rule without names has an empty set.
	current, next watchSet
	// namespaceWatch watches the labels of namespaces; nil if they do not matter.
	namespaceWatch *sharedWatch
	// matchingNamespaces are the namespaces whose labels match.
	matchingNamespaces map[string]bool

	objects sortedObjects
	// incoming are the objects from the next watches, while they take over.
	incoming sortedObjects
	// version is the latest resource version that the current watches have received.
	version uint64
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

// selects reports whether the rule selects the object.
func (r *rule) selects(o *object.Object) bool {
	return r.matches(o) && (r.namespaceLabels == nil || r.matchingNamespaces[o.Namespace()])
}

// objectChanged updates an object and enqueues the parents if that makes a difference.
func (r *rule) objectChanged(c change) {
	if c.current != nil && !r.selects(c.current) {
		c.current = nil
	}
	before := r.objects.put(c.object.Namespace(), c.object.Name(), c.current)
	if before == c.current {
		return
	}
	r.version = max(r.version, c.version)
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
	for _, t := range r.current {
		t.index.add(r, selectorKeys(namespace, r.labels))
		for o := range t.view.All() {
			if o.Namespace() == namespace && r.selects(o) {
				r.objects.put(namespace, o.Name(), o)
			}
		}
		r.version = max(r.version, t.view.Version())
	}
}

func (r *rule) removeNamespace(namespace string) {
	delete(r.matchingNamespaces, namespace)
	for _, t := range r.current {
		t.index.remove(r, selectorKeys(namespace, r.labels))
	}
	r.objects = r.objects.without(namespace)
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

// invalidate drops the snapshots of the rule sets.
func (r *rule) invalidate() {
	for _, a := range r.ruleSets.list {
		a.snapshot = nil
	}
}

func (r *rule) enqueue(changed *object.Object) {
	for _, a := range r.ruleSets.list {
		a.enqueue(changed)
	}
}

// enqueueUnsynced enqueues the parents that wait for the rule.
func (r *rule) enqueueUnsynced() {
	if r.current != nil {
		return
	}
	for _, a := range r.ruleSets.list {
		a.enqueueAll(nil)
	}
}

// canSwitch reports whether the next watches can take over, or are behind. Before they have caught
// up, they may contain objects that are already deleted.
func (r *rule) canSwitch() (canSwitch, behind bool) {
	if r.next == nil || !r.next.synced() || r.namespaceWatch != nil && !r.namespaceWatch.synced {
		return false, false
	}
	behind = r.current != nil && !r.next.reached(r.version)
	return !behind, behind
}

// switchOver switches to the next watches and their objects.
func (r *rule) switchOver() {
	former := r.current
	changed := !r.objects.same(r.incoming)
	r.objects, r.incoming = r.incoming, nil
	r.current, r.next = r.next, nil
	r.register(former)
	r.invalidate()
	switch {
	case former == nil:
		for _, a := range r.ruleSets.list {
			a.checkSynced()
		}
	case changed:
		r.enqueue(nil)
	}
}

// register adds the rule to the indexes of its current watches and releases the former ones.
func (r *rule) register(former watchSet) {
	where := r.indexKeys()
	for _, t := range former {
		t.index.remove(r, where)
	}
	if former == nil && r.namespaceWatch != nil {
		r.namespaceWatch.index.add(r, selectorKeys("", r.namespaceLabels))
	}
	for _, t := range r.current {
		t.index.add(r, where)
		r.version = max(r.version, t.view.Version())
	}
	r.releaseUnused(former)
}

// releaseUnused releases former watches that the rule does not use any more.
func (r *rule) releaseUnused(former watchSet) {
	for _, t := range former {
		if !r.uses(t) {
			t.release(r, true)
		}
	}
}

func (r *rule) uses(t *sharedWatch) bool {
	return slices.Contains(r.current, t) || slices.Contains(r.next, t)
}

// close releases all watches of the rule.
func (r *rule) close() {
	for _, t := range r.current {
		t.index.remove(r, r.indexKeys())
		t.release(r, false)
	}
	for _, t := range r.next {
		t.release(r, false)
	}
	if r.namespaceWatch != nil {
		r.namespaceWatch.index.remove(r, selectorKeys("", r.namespaceLabels))
		r.namespaceWatch.release(r, false)
	}
	r.current, r.next = nil, nil
}

// pendingWatches returns the watches that have not synced.
func (r *rule) pendingWatches() []*sharedWatch {
	if r.current != nil {
		return nil
	}
	pending := slices.Clone(r.next)
	if r.namespaceWatch != nil {
		pending = append(pending, r.namespaceWatch)
	}
	return slices.DeleteFunc(pending, func(t *sharedWatch) bool { return t.synced })
}
