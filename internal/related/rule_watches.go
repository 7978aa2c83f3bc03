package related

import (
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// maxNarrowWatches is how many narrow watches of one kind are open. Further rules share one watch
// of the whole kind, which is cheaper for both sides.
const maxNarrowWatches = 8

// kindName is how a rule names a kind.
type kindName struct{ apiVersion, plural string }

func nameOf(resource object.Resource) kindName {
	return kindName{resource.APIVersion(), resource.Plural}
}

// usedKind is a kind and the number of its rules.
type usedKind struct {
	resource object.Resource
	rules    int
}

// openWatches opens the watches of a rule: narrow ones, or that of the whole kind if there are too many. They do not
// change: a rule that changed watches might miss an object for a moment, and a hook might respond by deleting a child.
func (r *Registry) openWatches(one *rule) {
	if one.namespaceLabels != nil {
		one.namespaceWatch = r.acquire(namespaceSelection, one)
	}
	selections, whole := one.selections(), r.wholeKind(one)
	if !one.readsByName() && r.countNarrow(whole, selections) > maxNarrowWatches {
		selections = []cache.Selection{whole}
	}
	for _, selection := range selections {
		one.watches = append(one.watches, r.acquire(selection, one))
	}
	r.fillSynced(map[*rule]struct{}{one: {}})
}

// wholeKind selects all objects that a rule may select. A controller that is limited to namespaces may not read others.
func (r *Registry) wholeKind(one *rule) cache.Selection {
	selection := cache.Selection{Resource: one.resource, Managed: r.options.Managed}
	if len(r.options.Scope.Namespaces) > 0 {
		selection.Namespace = one.namespace
	}
	return selection
}

// countNarrow counts the watches of a kind that are in use or added, without that of the whole kind.
func (r *Registry) countNarrow(whole cache.Selection, added []cache.Selection) int {
	n := 0
	for selection, t := range r.watches {
		if selection.Resource == whole.Resource && selection != whole && len(t.rules) > 0 {
			n++
		}
	}
	for _, selection := range added {
		selection.Managed = r.options.Managed
		if t := r.watches[selection]; t == nil || len(t.rules) == 0 {
			n++
		}
	}
	return n
}

// fillSynced collects the objects of rules whose watches have all synced, with one pass over each
// watch. From then on, events update them.
func (r *Registry) fillSynced(rules map[*rule]struct{}) {
	synced := maps.Clone(rules)
	maps.DeleteFunc(synced, func(one *rule, _ struct{}) bool { return one.listed || len(one.pendingWatches()) > 0 })
	r.eventID++
	indexes := map[*sharedWatch]index{}
	for one := range synced {
		one.findNamespaces()
		for _, t := range one.watches {
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
	for one := range synced {
		slices.SortFunc(one.objects, object.CompareNames)
		one.register()
	}
}

func (x index) deliver(o *object.Object) {
	for one := range x.of(o) {
		if one.selects(o) {
			one.objects = append(one.objects, o)
		}
	}
}

func (r *rule) fetch(t *sharedWatch) {
	for _, name := range r.names {
		if o := t.view.Get(r.namespace, name); o != nil {
			r.objects = append(r.objects, o)
		}
	}
}
