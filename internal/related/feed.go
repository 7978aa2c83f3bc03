package related

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// maxNarrow is how many watches of one kind are opened for what rules select of
// it. From there on one watch of the whole kind is the lighter load, for both
// sides.
const maxNarrow = 8

// kindName is what a rule calls a kind.
type kindName struct{ apiVersion, plural string }

// feed is one kind of object: the rules about it, and whether each draws from
// watches of its own or all from one. The registry's lock guards it.
type feed struct {
	registry *Registry
	resource object.Resource
	rules    map[*rule]struct{}
	// wanted counts the rules that want a selection.
	wanted map[store.Selection]int
	// wide says that all rules draw, or are to draw, from one watch.
	wide bool
	// cooling says that it is to be seen in a while whether narrow watches do.
	cooling bool
}

func newFeed(r *Registry, resource object.Resource) *feed {
	return &feed{registry: r, resource: resource, rules: map[*rule]struct{}{}, wanted: map[store.Selection]int{}}
}

func (f *feed) name() kindName { return kindName{f.resource.APIVersion(), f.resource.Plural} }

// whole is the selection of all objects of the kind.
func (f *feed) whole() store.Selection { return store.Selection{Resource: f.resource} }

// wholeFor is the selection of all objects of the kind that a rule may select: who
// is limited to namespaces may not look at others.
func (f *feed) wholeFor(one *rule) store.Selection {
	selection := f.whole()
	if len(f.registry.options.Scope.Namespaces) > 0 {
		selection.Namespace = one.namespace
	}
	return selection
}

// crowded says that one watch of the whole kind is to replace the narrow ones.
func (f *feed) crowded() bool {
	return f.wanted[f.whole()] > 0 || len(f.wanted) > maxNarrow && !isSecret(f.resource)
}

// sparse says that narrow watches will do again, for now and for some more.
func (f *feed) sparse() bool {
	return f.wanted[f.whole()] == 0 && (len(f.wanted) <= maxNarrow/2 || isSecret(f.resource))
}

// attach adds a rule and opens the watches it needs.
func (f *feed) attach(one *rule) {
	f.rules[one] = struct{}{}
	for _, selection := range one.narrowest() {
		f.wanted[selection]++
	}
	if one.spaces != nil {
		one.space = f.registry.join(spaces, one)
	}
	if !f.wide && f.crowded() {
		f.turn(true)
		return
	}
	f.arrange(one)
	f.registry.settle(map[*rule]struct{}{one: {}})
}

// detach removes a rule. It leaves one watch of the whole kind as it is for a
// while, although fewer may do.
func (f *feed) detach(one *rule) {
	delete(f.rules, one)
	for _, selection := range one.narrowest() {
		f.wanted[selection]--
		if f.wanted[selection] == 0 {
			delete(f.wanted, selection)
		}
	}
	one.end()
	if f.wide && f.sparse() && !f.cooling {
		f.cooling = true
		f.registry.options.After(f.registry.options.Linger, f.cool)
	}
}

// cool goes back to narrow watches if they still do.
func (f *feed) cool() {
	f.registry.mu.Lock()
	defer f.registry.mu.Unlock()
	f.cooling = false
	if !f.registry.closed && f.wide && f.sparse() {
		f.turn(false)
	}
}

// turn moves all rules to one watch of the whole kind, or back to their own.
// Each keeps drawing from where it does until the new watch is as far.
func (f *feed) turn(wide bool) {
	f.wide = wide
	for one := range f.rules {
		f.arrange(one)
	}
	f.registry.settle(f.rules)
}

// arrange opens the watches that a rule is to draw from.
func (f *feed) arrange(one *rule) {
	selections := one.narrowest()
	if f.wide {
		selections = []store.Selection{f.wholeFor(one)}
	}
	next := make(supply, len(selections))
	for i, selection := range selections {
		next[i] = f.registry.join(selection, one)
	}
	former := one.next
	one.next = next
	if one.now != nil && slices.Equal(one.now, next) {
		one.next = nil
	}
	one.giveUp(former)
}

// settle has each of the rules served whose next supply can take over. Those that
// have to wait for it to catch up are looked at again in a moment.
func (r *Registry) settle(rules map[*rule]struct{}) {
	var ready []*rule
	for one := range rules {
		due, behind := one.due()
		if due {
			ready = append(ready, one)
		}
		if behind {
			r.lookAgain(one)
		}
	}
	r.turn++
	r.fill(ready)
	for _, one := range ready {
		one.turnOver()
	}
}

// fill collects what the next supplies of rules hold for them, in one walk over
// the objects of each watch.
func (r *Registry) fill(rules []*rule) {
	seekers := map[*tap]index{}
	for _, one := range rules {
		one.survey()
		for _, t := range one.next {
			if one.exact() {
				one.fetch(t)
				continue
			}
			if seekers[t] == nil {
				seekers[t] = index{}
			}
			seekers[t].file(one, one.places())
		}
	}
	for t, seek := range seekers {
		for o := range t.view.All() {
			seek.deliver(o)
		}
	}
	for _, one := range rules {
		one.arrived.sort()
	}
}

// deliver adds an object to what has arrived for the rules that select it.
func (x index) deliver(o *object.Object) {
	for one := range x.of(o) {
		if one.selects(o) {
			one.arrived = append(one.arrived, o)
		}
	}
}

// fetch collects the objects that a rule names in full.
func (r *rule) fetch(t *tap) {
	for _, name := range r.names {
		if o := t.view.Get(r.namespace, name); o != nil {
			r.arrived = append(r.arrived, o)
		}
	}
}
