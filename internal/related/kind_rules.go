package related

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// maxNarrowWatches is how many watches of one kind are opened for what rules select of
// it. From there on one watch of the whole kind is the lighter load, for both
// sides.
const maxNarrowWatches = 8

// kindName is what a rule calls a kind.
type kindName struct{ apiVersion, plural string }

// kindRules is one kind of object: the rules about it, and whether each draws from
// watches of its own or all from one. The registry's lock guards it.
type kindRules struct {
	registry *Registry
	resource object.Resource
	rules    map[*rule]struct{}
	// selections counts the rules that want a selection.
	selections map[cache.Selection]int
	// wholeKind says that all rules draw, or are to draw, from one watch.
	wholeKind bool
	// narrowing says that it is to be seen in a while whether narrow watches do.
	narrowing bool
}

func newKindRules(r *Registry, resource object.Resource) *kindRules {
	return &kindRules{registry: r, resource: resource, rules: map[*rule]struct{}{}, selections: map[cache.Selection]int{}}
}

func (f *kindRules) name() kindName { return kindName{f.resource.APIVersion(), f.resource.Plural} }

// selectAll is the selection of all objects of the kind.
func (f *kindRules) selectAll() cache.Selection { return cache.Selection{Resource: f.resource} }

// selectAllFor is the selection of all objects of the kind that a rule may select: who
// is limited to namespaces may not look at others.
func (f *kindRules) selectAllFor(one *rule) cache.Selection {
	selection := f.selectAll()
	if len(f.registry.options.Scope.Namespaces) > 0 {
		selection.Namespace = one.namespace
	}
	return selection
}

// shouldWiden says that one watch of the whole kind is to replace the narrow ones.
func (f *kindRules) shouldWiden() bool {
	return f.selections[f.selectAll()] > 0 || len(f.selections) > maxNarrowWatches && !isSecret(f.resource)
}

// canNarrow says that narrow watches will do again, for now and for some more.
func (f *kindRules) canNarrow() bool {
	return f.selections[f.selectAll()] == 0 && (len(f.selections) <= maxNarrowWatches/2 || isSecret(f.resource))
}

// attach adds a rule and opens the watches it needs.
func (f *kindRules) attach(one *rule) {
	f.rules[one] = struct{}{}
	for _, selection := range one.selections() {
		f.selections[selection]++
	}
	if one.namespaceLabels != nil {
		one.namespaceWatch = f.registry.acquire(namespaceSelection, one)
	}
	if !f.wholeKind && f.shouldWiden() {
		f.setWholeKind(true)
		return
	}
	f.openWatches(one)
	f.registry.switchReady(map[*rule]struct{}{one: {}})
}

// detach removes a rule. It leaves one watch of the whole kind as it is for a
// while, although fewer may do.
func (f *kindRules) detach(one *rule) {
	delete(f.rules, one)
	for _, selection := range one.selections() {
		f.selections[selection]--
		if f.selections[selection] == 0 {
			delete(f.selections, selection)
		}
	}
	one.close()
	if f.wholeKind && f.canNarrow() && !f.narrowing {
		f.narrowing = true
		f.registry.options.After(f.registry.options.IdleTimeout, f.narrow)
	}
}

// narrow goes back to narrow watches if they still do.
func (f *kindRules) narrow() {
	f.registry.mu.Lock()
	defer f.registry.mu.Unlock()
	f.narrowing = false
	if !f.registry.closed && f.wholeKind && f.canNarrow() {
		f.setWholeKind(false)
	}
}

// setWholeKind moves all rules to one watch of the whole kind, or back to their own.
// Each keeps drawing from where it does until the new watch is as far.
func (f *kindRules) setWholeKind(wide bool) {
	f.wholeKind = wide
	for one := range f.rules {
		f.openWatches(one)
	}
	f.registry.switchReady(f.rules)
}

// openWatches opens the watches that a rule is to draw from.
func (f *kindRules) openWatches(one *rule) {
	selections := one.selections()
	if f.wholeKind {
		selections = []cache.Selection{f.selectAllFor(one)}
	}
	next := make(watchSet, len(selections))
	for i, selection := range selections {
		next[i] = f.registry.acquire(selection, one)
	}
	former := one.next
	one.next = next
	if one.current != nil && slices.Equal(one.current, next) {
		one.next = nil
	}
	one.releaseUnused(former)
}

// switchReady has each of the rules served whose next supply can take over. Those that
// have to wait for it to catch up are looked at again in a moment.
func (r *Registry) switchReady(rules map[*rule]struct{}) {
	var ready []*rule
	for one := range rules {
		canSwitch, behind := one.canSwitch()
		if canSwitch {
			ready = append(ready, one)
		}
		if behind {
			r.recheckLater(one)
		}
	}
	r.eventID++
	r.fill(ready)
	for _, one := range ready {
		one.switchOver()
	}
}

// fill collects what the next supplies of rules hold for them, in one walk over
// the objects of each watch.
func (r *Registry) fill(rules []*rule) {
	indexes := map[*sharedWatch]index{}
	for _, one := range rules {
		one.findNamespaces()
		for _, t := range one.next {
			if one.namesAll() {
				one.fetch(t)
				continue
			}
			if indexes[t] == nil {
				indexes[t] = index{}
			}
			indexes[t].add(one, one.indexKeys())
		}
	}
	for t, idx := range indexes {
		for o := range t.view.All() {
			idx.deliver(o)
		}
	}
	for _, one := range rules {
		one.incoming.sort()
	}
}

// deliver adds an object to what has arrived for the rules that select it.
func (x index) deliver(o *object.Object) {
	for one := range x.of(o) {
		if one.selects(o) {
			one.incoming = append(one.incoming, o)
		}
	}
}

// fetch collects the objects that a rule names in full.
func (r *rule) fetch(t *sharedWatch) {
	for _, name := range r.names {
		if o := t.view.Get(r.namespace, name); o != nil {
			r.incoming = append(r.incoming, o)
		}
	}
}
