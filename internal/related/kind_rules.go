package related

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// maxNarrowWatches is how many narrow watches of one kind are opened. With more, one watch of the
// whole kind is cheaper for both sides.
const maxNarrowWatches = 8

// kindName is how a rule names a kind.
type kindName struct{ apiVersion, plural string }

// kindRules are the rules for one kind. Each has its own narrow watches, or all share one watch of
// the whole kind. The registry's lock guards it.
type kindRules struct {
	registry *Registry
	resource object.Resource
	rules    map[*rule]struct{}
	// selections counts the rules by selection.
	selections map[cache.Selection]int
	// wholeKind means that all rules use, or will use, one watch.
	wholeKind bool
	// narrowing means that a timer for narrow is set.
	narrowing bool
}

func newKindRules(r *Registry, resource object.Resource) *kindRules {
	return &kindRules{registry: r, resource: resource, rules: map[*rule]struct{}{}, selections: map[cache.Selection]int{}}
}

func (f *kindRules) name() kindName { return kindName{f.resource.APIVersion(), f.resource.Plural} }

// selectAll returns the selection of all objects of the kind.
func (f *kindRules) selectAll() cache.Selection { return cache.Selection{Resource: f.resource} }

// selectAllFor returns the selection of all objects that a rule may select. A controller that is
// limited to namespaces may not read others.
func (f *kindRules) selectAllFor(one *rule) cache.Selection {
	selection := f.selectAll()
	if len(f.registry.options.Scope.Namespaces) > 0 {
		selection.Namespace = one.namespace
	}
	return selection
}

// shouldWiden reports whether one watch should replace the narrow ones.
func (f *kindRules) shouldWiden() bool {
	return f.selections[f.selectAll()] > 0 || len(f.selections) > maxNarrowWatches && !isSecret(f.resource)
}

// canNarrow reports whether narrow watches suffice again, with some margin.
func (f *kindRules) canNarrow() bool {
	return f.selections[f.selectAll()] == 0 && (len(f.selections) <= maxNarrowWatches/2 || isSecret(f.resource))
}

// attach adds a rule and opens its watches.
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

// detach removes a rule. A watch of the whole kind stays open for a while even if narrow ones
// suffice.
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

// narrow switches back to narrow watches if they still suffice.
func (f *kindRules) narrow() {
	f.registry.mu.Lock()
	defer f.registry.mu.Unlock()
	f.narrowing = false
	if !f.registry.closed && f.wholeKind && f.canNarrow() {
		f.setWholeKind(false)
	}
}

// setWholeKind switches all rules to one watch, or back. Each rule keeps its watches until the new
// ones have caught up.
func (f *kindRules) setWholeKind(wide bool) {
	f.wholeKind = wide
	for one := range f.rules {
		f.openWatches(one)
	}
	f.registry.switchReady(f.rules)
}

// openWatches opens the next watches of a rule.
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

// switchReady switches rules whose next watches have caught up. It rechecks the others later.
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

// fill collects the objects for rules from their next watches, with one pass over each watch.
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

// deliver adds an object to the rules that select it.
func (x index) deliver(o *object.Object) {
	for one := range x.of(o) {
		if one.selects(o) {
			one.incoming = append(one.incoming, o)
		}
	}
}

// fetch collects the objects that a rule names.
func (r *rule) fetch(t *sharedWatch) {
	for _, name := range r.names {
		if o := t.view.Get(r.namespace, name); o != nil {
			r.incoming = append(r.incoming, o)
		}
	}
}
