package related

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// rule is a pattern that answers have in common, with the objects it selects.
// The registry's lock guards it.
type rule struct {
	pattern
	feed *feed
	// key is its identity, serial the order in which rules came.
	key    string
	serial uint64
	// answers are those the rule is part of.
	answers crowd[*answer]

	// now brings the objects; it is nil until all of it has delivered. next is to
	// take its place; it is nil when there is no change under way. A rule that
	// names nothing has an empty one.
	now, next supply
	// space brings the labels of namespaces; nil where they do not matter.
	space *tap
	// near are the namespaces whose labels match.
	near map[string]bool

	objects shelf
	// arrived are the objects that the next supply brings, while it takes over.
	arrived shelf
	// heard is up to which version the present supply has been heard of.
	heard uint64
}

// places are where the rule is filed, so that an object finds it. One that goes
// by the labels of namespaces is filed under the namespaces themselves: an object
// knows no others.
func (r *rule) places() []place {
	if r.spaces == nil {
		return r.pattern.places()
	}
	var where []place
	for name := range r.near {
		where = append(where, placesOf(name, r.labels)...)
	}
	return where
}

// selects says whether the rule selects the object.
func (r *rule) selects(o *object.Object) bool {
	return r.fits(o) && (r.spaces == nil || r.near[o.Namespace()])
}

// objectChanged puts what there is of a name in place of what there was, and
// wakes the parents for whom that makes a difference.
func (r *rule) objectChanged(c change) {
	if c.now != nil && !r.selects(c.now) {
		c.now = nil
	}
	before := r.objects.put(c.subject.Namespace(), c.subject.Name(), c.now)
	if before == c.now {
		return
	}
	r.heard = max(r.heard, c.version)
	r.forget()
	if before == nil || c.now == nil || before.Digest() != c.now.Digest() {
		r.wake(c.subject)
	}
}

// spaceChanged takes in or lets go of the objects of a namespace whose labels
// have come to match, or do so no more.
func (r *rule) spaceChanged(c change) {
	name := c.subject.Name()
	near := c.now != nil && r.spaces.Matches(c.now.Labels())
	if near == r.near[name] {
		return
	}
	before := len(r.objects)
	if near {
		r.takeIn(name)
	} else {
		r.letGo(name)
	}
	if len(r.objects) != before {
		r.forget()
		r.wake(c.subject)
	}
}

// takeIn adds what the rule selects in a namespace that has come near.
func (r *rule) takeIn(namespace string) {
	r.near[namespace] = true
	for _, t := range r.now {
		t.served.file(r, placesOf(namespace, r.labels))
		for o := range t.view.All() {
			if o.Namespace() == namespace && r.selects(o) {
				r.objects.put(namespace, o.Name(), o)
			}
		}
		r.heard = max(r.heard, t.view.Version())
	}
}

func (r *rule) letGo(namespace string) {
	delete(r.near, namespace)
	for _, t := range r.now {
		t.served.remove(r, placesOf(namespace, r.labels))
	}
	r.objects = r.objects.without(namespace)
}

// survey finds the namespaces whose labels match.
func (r *rule) survey() {
	if r.spaces == nil || r.near != nil {
		return
	}
	r.near = map[string]bool{}
	for space := range r.space.view.All() {
		if r.spaces.Matches(space.Labels()) {
			r.near[space.Name()] = true
		}
	}
}

// forget has the answers put together anew when they are next asked for.
func (r *rule) forget() {
	for _, a := range r.answers.list {
		a.shown = nil
	}
}

func (r *rule) wake(changed *object.Object) {
	for _, a := range r.answers.list {
		a.wake(changed)
	}
}

// disappoint wakes the parents that the rule keeps waiting.
func (r *rule) disappoint() {
	if r.now != nil {
		return
	}
	for _, a := range r.answers.list {
		a.wakeAll(nil)
	}
}

// due says that the next supply can take over. It may only be behind the present
// one: then an object would come to life again that is already gone.
func (r *rule) due() (due, behind bool) {
	if r.next == nil || !r.next.synced() || r.space != nil && !r.space.synced {
		return false, false
	}
	behind = r.now != nil && !r.next.reached(r.heard)
	return !behind, behind
}

// turnOver has the next supply take over, with what has arrived from it.
func (r *rule) turnOver() {
	former := r.now
	changed := !r.objects.same(r.arrived)
	r.objects, r.arrived = r.arrived, nil
	r.now, r.next = r.next, nil
	r.file(former)
	r.forget()
	switch {
	case former == nil:
		for _, a := range r.answers.list {
			a.complete()
		}
	case changed:
		r.wake(nil)
	}
}

// file has the events of the present supply find the rule, and gives up the
// former one.
func (r *rule) file(former supply) {
	where := r.places()
	for _, t := range former {
		t.served.remove(r, where)
	}
	if former == nil && r.space != nil {
		r.space.served.file(r, placesOf("", r.spaces))
	}
	for _, t := range r.now {
		t.served.file(r, where)
		r.heard = max(r.heard, t.view.Version())
	}
	r.giveUp(former)
}

// giveUp leaves those watches of a supply that neither the present nor the next
// one has.
func (r *rule) giveUp(former supply) {
	for _, t := range former {
		if !r.draws(t) {
			t.leave(r, true)
		}
	}
}

func (r *rule) draws(t *tap) bool {
	return slices.Contains(r.now, t) || slices.Contains(r.next, t)
}

// end takes the rule from all its watches.
func (r *rule) end() {
	for _, t := range r.now {
		t.served.remove(r, r.places())
		t.leave(r, false)
	}
	for _, t := range r.next {
		t.leave(r, false)
	}
	if r.space != nil {
		r.space.served.remove(r, placesOf("", r.spaces))
		r.space.leave(r, false)
	}
	r.now, r.next = nil, nil
}

// lacks are the watches that have to deliver before the rule is served.
func (r *rule) lacks() []*tap {
	if r.now != nil {
		return nil
	}
	needs := slices.Clone(r.next)
	if r.space != nil {
		needs = append(needs, r.space)
	}
	return slices.DeleteFunc(needs, func(t *tap) bool { return t.synced })
}
