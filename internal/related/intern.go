package related

import (
	"maps"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Equal rules are one rule, and equal answers one answer: two thousand parents
// that ask for the same cost what one does.

// known is the kind of a name that rules are about already.
func (r *Registry) known(name kindName) (object.Resource, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.feeds[name]; f != nil {
		return f.resource, true
	}
	return object.Resource{}, false
}

// answer returns the answer that has these patterns as its rules.
func (r *Registry) answer(patterns []pattern) *answer {
	rules := make([]*rule, len(patterns))
	for i, p := range patterns {
		rules[i] = r.rule(p)
	}
	rules = inOrder(rules)
	key := keyOf(rules)
	if a := r.answers[key]; a != nil {
		return a
	}
	a := &answer{registry: r, key: key, rules: rules}
	r.answers[key] = a
	for _, one := range rules {
		one.answers.add(a)
	}
	a.complete()
	return a
}

func (r *Registry) rule(p pattern) *rule {
	key := p.identity()
	if one := r.rules[key]; one != nil {
		return one
	}
	r.serial++
	one := &rule{pattern: p, key: key, serial: r.serial, feed: r.feed(p.resource)}
	r.rules[key] = one
	one.feed.attach(one)
	return one
}

func (r *Registry) feed(resource object.Resource) *feed {
	f := newFeed(r, resource)
	if known := r.feeds[f.name()]; known != nil && known.resource == resource {
		return known
	}
	r.feeds[f.name()] = f
	return f
}

// part takes a parent from an answer.
func (r *Registry) part(parent queue.Key, former *answer) {
	former.parents.remove(parent)
	if !former.parents.empty() {
		return
	}
	delete(r.answers, former.key)
	for _, one := range former.rules {
		one.answers.remove(former)
		if one.answers.empty() {
			r.retire(one)
		}
	}
}

// retire drops a rule that is in no answer.
func (r *Registry) retire(one *rule) {
	delete(r.rules, one.key)
	delete(r.behind, one)
	one.feed.detach(one)
	if name := one.feed.name(); len(one.feed.rules) == 0 && r.feeds[name] == one.feed {
		delete(r.feeds, name)
	}
}

// lookAgain has a rule looked at in a moment whose next supply is behind.
func (r *Registry) lookAgain(one *rule) {
	if len(r.behind) == 0 {
		r.options.After(catchUp, r.settleBehind)
	}
	r.behind[one] = struct{}{}
}

func (r *Registry) settleBehind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	waiting := maps.Clone(r.behind)
	clear(r.behind)
	r.settle(waiting)
}
