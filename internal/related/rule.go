package related

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// rule is a pattern that answers have in common, with the objects it selects.
// The registry's lock guards it.
type rule struct {
	pattern
	kind *kindRules
	// key is its identity, serial the order in which rules came.
	key    string
	serial uint64
	// ruleSets are those the rule is part of.
	ruleSets indexedSet[*ruleSet]

	// current brings the objects; it is nil until all of it has delivered. next is to
	// take its place; it is nil when there is no change under way. A rule that
	// names nothing has an empty one.
	current, next watchSet
	// namespaceWatch brings the labels of namespaces; nil where they do not matter.
	namespaceWatch *sharedWatch
	// matchingNamespaces are the namespaces whose labels match.
	matchingNamespaces map[string]bool

	objects sortedObjects
	// incoming are the objects that the next supply brings, while it takes over.
	incoming sortedObjects
	// version is up to which version the present supply has been heard of.
	version uint64
}

// indexKeys are where the rule is filed, so that an object finds it. One that goes
// by the labels of namespaces is filed under the namespaces themselves: an object
// knows no others.
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

// selects says whether the rule selects the object.
func (r *rule) selects(o *object.Object) bool {
	return r.matches(o) && (r.namespaceLabels == nil || r.matchingNamespaces[o.Namespace()])
}

// objectChanged puts what there is of a name in place of what there was, and
// wakes the parents for whom that makes a difference.
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

// namespaceChanged takes in or lets go of the objects of a namespace whose labels
// have come to match, or do so no more.
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

// addNamespace adds what the rule selects in a namespace that has come near.
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

// findNamespaces finds the namespaces whose labels match.
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

// invalidate has the answers put together anew when they are next asked for.
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

// enqueueUnsynced wakes the parents that the rule keeps waiting.
func (r *rule) enqueueUnsynced() {
	if r.current != nil {
		return
	}
	for _, a := range r.ruleSets.list {
		a.enqueueAll(nil)
	}
}

// canSwitch says that the next supply can take over. It may only be behind the present
// one: then an object would come to life again that is already gone.
func (r *rule) canSwitch() (canSwitch, behind bool) {
	if r.next == nil || !r.next.synced() || r.namespaceWatch != nil && !r.namespaceWatch.synced {
		return false, false
	}
	behind = r.current != nil && !r.next.reached(r.version)
	return !behind, behind
}

// switchOver has the next supply take over, with what has arrived from it.
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

// register has the events of the present supply find the rule, and gives up the
// former one.
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

// releaseUnused leaves those watches of a supply that neither the present nor the next
// one has.
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

// close takes the rule from all its watches.
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

// pendingWatches are the watches that have to deliver before the rule is served.
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
