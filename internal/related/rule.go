package related

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
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

// digestSeed makes digests differ between processes.
var digestSeed = maphash.MakeSeed()

// ruleSet is the rules in a customize response. Parents with the same rules share it and its
// snapshot. The registry's lock guards it.
type ruleSet struct {
	registry *Registry
	key      string
	// rules are sorted by kind.
	rules   []*rule
	parents map[queue.Key]struct{}
	// synced means that the watches of all rules have synced.
	synced bool
	// snapshot is nil if it has to be built.
	snapshot *Snapshot
	// eventID is the event for which the parents were enqueued last.
	eventID uint64
}

// compareKinds orders by "Kind.apiVersion", the name of a group in a request.
func compareKinds(a, b object.Resource) int {
	return cmp.Compare(a.Kind+"."+a.APIVersion(), b.Kind+"."+b.APIVersion())
}

// checkSynced updates synced, and enqueues the parents if it is true now.
func (a *ruleSet) checkSynced() {
	if a.synced || slices.ContainsFunc(a.rules, func(one *rule) bool { return !one.listed }) {
		return
	}
	a.synced = true
	a.enqueue(nil)
}

// enqueue enqueues the parents once for an event.
func (a *ruleSet) enqueue(changed *object.Object) {
	if a.eventID == a.registry.eventID {
		return
	}
	a.eventID = a.registry.eventID
	for parent := range a.parents {
		a.registry.options.Enqueue(parent, changed)
	}
}

func (a *ruleSet) takeSnapshot() Snapshot {
	if a.snapshot != nil {
		return *a.snapshot
	}
	a.snapshot = &Snapshot{}
	if len(a.rules) == 0 {
		return *a.snapshot
	}
	var digest maphash.Hash
	digest.SetSeed(digestSeed)
	for rest := a.rules; len(rest) > 0; {
		kind, n := rest[0].resource, 1
		for n < len(rest) && compareKinds(rest[n].resource, kind) == 0 {
			n++
		}
		objects := objectsOf(rest[:n])
		a.snapshot.Groups = append(a.snapshot.Groups, groupOf(kind, objects))
		maphash.WriteComparable(&digest, kind)
		for _, o := range objects {
			maphash.WriteComparable(&digest, o.Digest())
		}
		rest = rest[n:]
	}
	a.snapshot.Digest = max(digest.Sum64(), 1)
	return *a.snapshot
}

// objectsOf merges the objects of rules. If an object is in several, the first counts.
func objectsOf(rules []*rule) object.Sorted {
	if len(rules) == 1 {
		return rules[0].objects
	}
	all := slices.Concat(lists.Map(rules, func(one *rule) object.Sorted { return one.objects })...)
	slices.SortStableFunc(all, object.CompareNames)
	return slices.CompactFunc(all, func(a, b *object.Object) bool { return object.CompareNames(a, b) == 0 })
}

func groupOf(resource object.Resource, objects object.Sorted) hook.Group {
	group := hook.Group{APIVersion: resource.APIVersion(), Kind: resource.Kind, Objects: make([]hook.Entry, len(objects))}
	for i, o := range objects {
		group.Objects[i] = hook.Entry{Namespace: o.Namespace(), Name: o.Name(), Object: o.JSONWithManagedFields()}
	}
	return group
}

// Equal rules are stored once, and so are equal rule sets: thousands of parents with the same rules
// cost as much as one.

func (r *Registry) ruleSetFor(patterns []pattern) *ruleSet {
	rules := lists.Map(patterns, r.ruleFor)
	slices.SortFunc(rules, func(a, b *rule) int {
		return cmp.Or(compareKinds(a.resource, b.resource), cmp.Compare(a.serial, b.serial))
	})
	rules = slices.Compact(rules)
	serials := make([]byte, 0, 8*len(rules))
	for _, one := range rules {
		serials = binary.BigEndian.AppendUint64(serials, one.serial)
	}
	key := string(serials)
	if a := r.ruleSets[key]; a != nil {
		return a
	}
	a := &ruleSet{registry: r, key: key, rules: rules, parents: map[queue.Key]struct{}{}}
	r.ruleSets[key] = a
	for _, one := range rules {
		one.ruleSets[a] = struct{}{}
	}
	a.checkSynced()
	return a
}

func (r *Registry) ruleFor(p pattern) *rule {
	key := p.identity()
	if one := r.rules[key]; one != nil {
		return one
	}
	r.nextSerial++
	one := &rule{pattern: p, key: key, serial: r.nextSerial, kind: r.usedKind(p.resource), ruleSets: map[*ruleSet]struct{}{}}
	one.kind.rules++
	r.rules[key] = one
	r.openWatches(one)
	return one
}

func (r *Registry) usedKind(resource object.Resource) *usedKind {
	used := r.kinds[nameOf(resource)]
	if used == nil || used.resource != resource {
		used = &usedKind{resource: resource}
		r.kinds[nameOf(resource)] = used
	}
	return used
}

func (r *Registry) detach(parent queue.Key, former *ruleSet) {
	delete(former.parents, parent)
	if len(former.parents) > 0 {
		return
	}
	delete(r.ruleSets, former.key)
	for _, one := range former.rules {
		delete(one.ruleSets, former)
		if len(one.ruleSets) == 0 {
			r.dropRule(one)
		}
	}
}

func (r *Registry) dropRule(one *rule) {
	delete(r.rules, one.key)
	one.close()
	one.kind.rules--
	if name := nameOf(one.resource); one.kind.rules == 0 && r.kinds[name] == one.kind {
		delete(r.kinds, name)
	}
}
