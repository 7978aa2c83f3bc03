package related

import (
	"cmp"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// tap is one watch and the rules that draw from it. The registry's lock guards
// it.
type tap struct {
	registry  *Registry
	selection store.Selection
	view      *store.View
	// synced says that the view has delivered what there is. If it does not come
	// to that, doubted is the error that the parents have been told of.
	synced  bool
	doubted string
	// users are the rules that need the watch, now or soon.
	users map[*rule]struct{}
	// served finds those among them that an object concerns, as far as they
	// draw from the watch already.
	served index
	// keep ends the countdown that an unused watch is under.
	keep func() bool
	gone chan struct{}
}

// join returns the tap of a selection, with a rule among its users.
func (r *Registry) join(selection store.Selection, user *rule) *tap {
	selection.Managed = r.options.Managed && selection != spaces
	t := r.taps[selection]
	if t == nil {
		t = r.open(selection)
	}
	t.keep()
	t.users[user] = struct{}{}
	return t
}

// open starts a watch. Its handler waits for the lock, which the caller holds.
func (r *Registry) open(selection store.Selection) *tap {
	t := &tap{
		registry:  r,
		selection: selection,
		users:     map[*rule]struct{}{},
		served:    index{},
		keep:      func() bool { return true },
		gone:      make(chan struct{}),
	}
	r.taps[selection] = t
	concerns := (*rule).objectChanged
	if selection == spaces {
		concerns = (*rule).spaceChanged
	}
	t.view = r.options.Store.Watch(selection, func(e store.Event) { t.changed(e, concerns) })
	r.running.Go(t.await)
	r.options.After(doubtAfter, t.doubt)
	return t
}

// await has those rules served that wait for the watch.
func (t *tap) await() {
	select {
	case <-t.view.Ready():
	case <-t.gone:
		return
	}
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		t.synced = true
		r.settle(t.users)
	}
}

// doubt has those parents look who wait for the watch in vain, once for each
// thing that is wrong with it.
func (t *tap) doubt() {
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || t.synced || r.taps[t.selection] != t {
		return
	}
	if err := t.view.Err(); err != nil && err.Error() != t.doubted {
		t.doubted = err.Error()
		r.turn++
		for user := range t.users {
			user.disappoint()
		}
	}
	r.options.After(doubtAfter, t.doubt)
}

// leave takes a rule from the users. An unused watch is closed at once where
// another one has taken its place, else after a while: a hook's next answer may
// want it back.
func (t *tap) leave(user *rule, replaced bool) {
	if _, uses := t.users[user]; !uses {
		return
	}
	delete(t.users, user)
	switch {
	case len(t.users) > 0:
	case replaced:
		t.close()
	default:
		t.keep = t.registry.options.After(t.registry.options.Linger, t.expire)
	}
}

func (t *tap) expire() {
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && len(t.users) == 0 && r.taps[t.selection] == t {
		t.close()
	}
}

// close ends the watch, but not the view, here and now: that waits for a handler,
// which may be waiting for the lock that the caller holds.
func (t *tap) close() {
	delete(t.registry.taps, t.selection)
	close(t.gone)
	t.registry.running.Go(t.view.Close)
}

// changed takes an event to the rules that it concerns. Which object it was says
// the event; what that is now, the view knows better: a rule may have been filled
// after the event.
func (t *tap) changed(e store.Event, concerns func(*rule, change)) {
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	c := change{subject: cmp.Or(e.New, e.Old), version: t.view.Version()}
	if c.now = t.view.Get(c.subject.Namespace(), c.subject.Name()); c.now != nil {
		c.version = max(c.version, c.now.Version())
	}
	r.turn++
	for _, state := range [...]*object.Object{e.Old, e.New} {
		for user := range t.served.of(state) {
			concerns(user, c)
		}
	}
}

// change is what became of an object.
type change struct {
	// subject is the object as it is or, if it is gone, as it was.
	subject *object.Object
	// now is what there is of its name.
	now *object.Object
	// version is how far the watch had come.
	version uint64
}

// state describes the watch to whoever asks how it is doing.
func (t *tap) state() Watch {
	return Watch{Selection: t.selection, Objects: t.view.Len(), Synced: t.synced, Err: t.view.Err()}
}

// supply is the watches that together bring all that a rule selects.
type supply []*tap

func (s supply) synced() bool {
	for _, t := range s {
		if !t.synced {
			return false
		}
	}
	return true
}

// reached says that all of the supply has come as far as a version.
func (s supply) reached(version uint64) bool {
	for _, t := range s {
		if t.view.Version() < version {
			return false
		}
	}
	return true
}
