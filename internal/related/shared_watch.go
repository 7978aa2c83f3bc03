package related

import (
	"cmp"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// sharedWatch is one watch and the rules that draw from it. The registry's lock guards
// it.
type sharedWatch struct {
	registry  *Registry
	selection cache.Selection
	view      *cache.View
	// synced says that the view has delivered what there is. If it does not come
	// to that, doubted is the error that the parents have been told of.
	synced      bool
	reportedErr string
	// rules are the rules that need the watch, now or soon.
	rules map[*rule]struct{}
	// index finds those among them that an object concerns, as far as they
	// draw from the watch already.
	index index
	// cancelExpiry ends the countdown that an unused watch is under.
	cancelExpiry func() bool
	closed       chan struct{}
}

// acquire returns the tap of a selection, with a rule among its users.
func (r *Registry) acquire(selection cache.Selection, user *rule) *sharedWatch {
	selection.Managed = r.options.Managed && selection != namespaceSelection
	t := r.watches[selection]
	if t == nil {
		t = r.openWatch(selection)
	}
	t.cancelExpiry()
	t.rules[user] = struct{}{}
	return t
}

// openWatch starts a watch. Its handler waits for the lock, which the caller holds.
func (r *Registry) openWatch(selection cache.Selection) *sharedWatch {
	t := &sharedWatch{
		registry:     r,
		selection:    selection,
		rules:        map[*rule]struct{}{},
		index:        index{},
		cancelExpiry: func() bool { return true },
		closed:       make(chan struct{}),
	}
	r.watches[selection] = t
	handle := (*rule).objectChanged
	if selection == namespaceSelection {
		handle = (*rule).namespaceChanged
	}
	t.view = r.options.Store.Watch(selection, func(e cache.Event) { t.changed(e, handle) })
	r.running.Go(t.waitReady)
	r.options.After(errorCheckInterval, t.checkError)
	return t
}

// waitReady has those rules served that wait for the watch.
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
		r.switchReady(t.rules)
	}
}

// checkError has those parents look who wait for the watch in vain, once for each
// thing that is wrong with it.
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
			user.enqueueUnsynced()
		}
	}
	r.options.After(errorCheckInterval, t.checkError)
}

// release takes a rule from the users. An unused watch is closed at once where
// another one has taken its place, else after a while: a hook's next answer may
// want it back.
func (t *sharedWatch) release(user *rule, replaced bool) {
	if _, uses := t.rules[user]; !uses {
		return
	}
	delete(t.rules, user)
	switch {
	case len(t.rules) > 0:
	case replaced:
		t.close()
	default:
		t.cancelExpiry = t.registry.options.After(t.registry.options.IdleTimeout, t.expire)
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

// close ends the watch, but not the view, here and now: that waits for a handler,
// which may be waiting for the lock that the caller holds.
func (t *sharedWatch) close() {
	delete(t.registry.watches, t.selection)
	close(t.closed)
	t.registry.running.Go(t.view.Close)
}

// changed takes an event to the rules that it concerns. Which object it was says
// the event; what that is now, the view knows better: a rule may have been filled
// after the event.
func (t *sharedWatch) changed(e cache.Event, handle func(*rule, change)) {
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	c := change{object: cmp.Or(e.New, e.Old), version: t.view.Version()}
	if c.current = t.view.Get(c.object.Namespace(), c.object.Name()); c.current != nil {
		c.version = max(c.version, c.current.Version())
	}
	r.eventID++
	for _, state := range [...]*object.Object{e.Old, e.New} {
		for user := range t.index.of(state) {
			handle(user, c)
		}
	}
}

// change is what became of an object.
type change struct {
	// object is the object as it is or, if it is gone, as it was.
	object *object.Object
	// current is what there is of its name.
	current *object.Object
	// version is how far the watch had come.
	version uint64
}

// state describes the watch to whoever asks how it is doing.
func (t *sharedWatch) state() Watch {
	return Watch{Selection: t.selection, Objects: t.view.Len(), Synced: t.synced, Err: t.view.Err()}
}

// watchSet is the watches that together bring all that a rule selects.
type watchSet []*sharedWatch

func (s watchSet) synced() bool {
	for _, t := range s {
		if !t.synced {
			return false
		}
	}
	return true
}

// reached says that all of the supply has come as far as a version.
func (s watchSet) reached(version uint64) bool {
	for _, t := range s {
		if t.view.Version() < version {
			return false
		}
	}
	return true
}
