package related

import (
	"cmp"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// sharedWatch is one watch and the rules that use it. The registry's lock guards it.
type sharedWatch struct {
	registry  *Registry
	selection cache.Selection
	view      *cache.View
	// synced means that the initial list is complete. Until then, reportedErr is the last error for
	// which the parents were enqueued.
	synced      bool
	reportedErr string
	// rules are the rules that use the watch.
	rules map[*rule]struct{}
	// index has the rules that have listed its objects.
	index index
	// cancelExpiry stops the timer of an unused watch.
	cancelExpiry func() bool
	closed       chan struct{}
}

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

// openWatch starts a watch. Its handler waits for the lock that the caller has.
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
func (t *sharedWatch) release(user *rule) {
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

// changed passes an event to the rules. It reads the object from the view, because the rules may
// have objects that are newer than the event.
func (t *sharedWatch) changed(e cache.Event, handle func(*rule, change)) {
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
	// object is the new object or, if it was deleted, the old one.
	object *object.Object
	// current is the object in the cache now.
	current *object.Object
}
