package related

import (
	"cmp"
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// maxNarrowWatches is how many narrow watches of one kind are open. Further rules share one of the whole kind.
const maxNarrowWatches = 8

// openWatches opens the watches of a rule: narrow ones, or that of the whole kind if there are too many. They do not
// change: a rule that changed watches might miss an object for a moment, and a hook might respond by deleting a child.
func (r *Registry) openWatches(one *sharedRule) {
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
	r.fillSynced(map[*sharedRule]struct{}{one: {}})
}

// wholeKind selects all objects that a rule may select. A controller that is limited to namespaces may not read others.
func (r *Registry) wholeKind(one *sharedRule) cache.Selection {
	selection := cache.Selection{Resource: one.resource, Managed: r.options.Managed}
	if len(r.options.Scope.Namespaces) > 0 {
		selection.Namespace = one.namespace
	}
	return selection
}

// countNarrow counts the watches of a kind that are in use or added, without that of the whole kind.
func (r *Registry) countNarrow(whole cache.Selection, added []cache.Selection) int {
	narrow := map[cache.Selection]struct{}{}
	for selection, t := range r.watches {
		if selection.Resource == whole.Resource && len(t.rules) > 0 {
			narrow[selection] = struct{}{}
		}
	}
	for _, selection := range added {
		selection.Managed = r.options.Managed
		narrow[selection] = struct{}{}
	}
	delete(narrow, whole)
	return len(narrow)
}

// fillSynced collects the objects of rules whose watches have all synced. From then on, events update them.
func (r *Registry) fillSynced(rules map[*sharedRule]struct{}) {
	synced := maps.Clone(rules)
	maps.DeleteFunc(synced, func(one *sharedRule, _ struct{}) bool { return one.listed || len(one.pendingWatches()) > 0 })
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

func (r *sharedRule) fetch(t *sharedWatch) {
	for _, name := range r.names {
		if o := t.view.Get(r.namespace, name); o != nil {
			r.objects = append(r.objects, o)
		}
	}
}

// sharedWatch is one watch and the rules that use it. The registry's lock guards it.
type sharedWatch struct {
	registry  *Registry
	selection cache.Selection
	view      *cache.View
	// synced means that all objects are listed. Until then, reportedErr is the last error that enqueued the parents.
	synced      bool
	reportedErr string
	// rules are the rules that use the watch.
	rules map[*sharedRule]struct{}
	// index has the rules that have listed its objects.
	index index
	// cancelExpiry stops the timer of an unused watch.
	cancelExpiry func() bool
	closed       chan struct{}
}

func (r *Registry) acquire(selection cache.Selection, user *sharedRule) *sharedWatch {
	selection.Managed = r.options.Managed && selection != namespaceSelection
	t := r.watches[selection]
	if t == nil {
		t = r.openWatch(selection)
	}
	t.cancelExpiry()
	t.rules[user] = struct{}{}
	return t
}

// openWatch starts a watch. Its handler waits for the lock that the caller has.
func (r *Registry) openWatch(selection cache.Selection) *sharedWatch {
	t := &sharedWatch{
		registry: r, selection: selection, rules: map[*sharedRule]struct{}{}, index: index{},
		cancelExpiry: func() bool { return true }, closed: make(chan struct{}),
	}
	r.watches[selection] = t
	handle := (*sharedRule).objectChanged
	if selection == namespaceSelection {
		handle = (*sharedRule).namespaceChanged
	}
	t.view = r.options.Store.Watch(selection, func(e cache.Event) { t.changed(e, handle) })
	if t.view.Synced() {
		t.synced = true
		return t
	}
	r.running.Go(t.waitReady)
	r.after(errorCheckInterval, t.checkError)
	return t
}

// waitReady lists the objects of the rules when the watch has synced.
func (t *sharedWatch) waitReady() {
	select {
	case <-t.view.Ready():
	case <-t.closed:
		return
	}
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		t.synced = true
		r.fillSynced(t.rules)
	}
}

// checkError enqueues the parents that wait for a failing watch, once for each error.
func (t *sharedWatch) checkError() {
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || t.synced || r.watches[t.selection] != t {
		return
	}
	if err := t.view.Err(); err != nil && err.Error() != t.reportedErr {
		t.reportedErr = err.Error()
		r.eventID++
		for user := range t.rules {
			for a := range user.ruleSets {
				a.enqueue(nil)
			}
		}
	}
	r.after(errorCheckInterval, t.checkError)
}

// release removes a rule. An unused watch is closed after a while, because a hook may need it again.
func (t *sharedWatch) release(user *sharedRule) {
	delete(t.rules, user)
	if len(t.rules) == 0 {
		t.cancelExpiry = t.registry.after(idleTimeout, t.expire)
	}
}

func (t *sharedWatch) expire() {
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && len(t.rules) == 0 && r.watches[t.selection] == t {
		t.close()
	}
}

// close ends the watch. It closes the view on another goroutine, because a handler may be waiting for the lock.
func (t *sharedWatch) close() {
	delete(t.registry.watches, t.selection)
	close(t.closed)
	t.registry.running.Go(t.view.Close)
}

// changed passes an event to the rules, with the object in the view: the rules may have a newer one than the event.
func (t *sharedWatch) changed(e cache.Event, handle func(*sharedRule, change)) {
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	c := change{object: cmp.Or(e.New, e.Old)}
	c.current = t.view.Get(c.object.Namespace(), c.object.Name())
	r.eventID++
	for _, state := range [...]*object.Object{e.Old, e.New} {
		for user := range t.index.of(state) {
			handle(user, c)
		}
	}
}

type change struct {
	object  *object.Object // the new one or, if it was deleted, the old one
	current *object.Object // the one in the cache now
}
