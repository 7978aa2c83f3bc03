package related

import (
	"maps"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Equal rules are stored once, and so are equal rule sets: thousands of parents with the same rules
// cost as much as one.

// knownKind returns the resource of a kind that rules use already.
func (r *Registry) knownKind(name kindName) (object.Resource, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.kinds[name]; f != nil {
		return f.resource, true
	}
	return object.Resource{}, false
}

// ruleSetFor returns the rule set with these patterns.
func (r *Registry) ruleSetFor(patterns []pattern) *ruleSet {
	rules := make([]*rule, len(patterns))
	for i, p := range patterns {
		rules[i] = r.ruleFor(p)
	}
	rules = sortRules(rules)
	key := ruleSetKey(rules)
	if a := r.ruleSets[key]; a != nil {
		return a
	}
	a := &ruleSet{registry: r, key: key, rules: rules}
	r.ruleSets[key] = a
	for _, one := range rules {
		one.ruleSets.add(a)
	}
	a.checkSynced()
	return a
}

func (r *Registry) ruleFor(p pattern) *rule {
	key := p.identity()
	if one := r.rules[key]; one != nil {
		return one
	}
	r.nextSerial++
	one := &rule{pattern: p, key: key, serial: r.nextSerial, kind: r.kindRulesFor(p.resource)}
	r.rules[key] = one
	one.kind.attach(one)
	return one
}

func (r *Registry) kindRulesFor(resource object.Resource) *kindRules {
	f := newKindRules(r, resource)
	if known := r.kinds[f.name()]; known != nil && known.resource == resource {
		return known
	}
	r.kinds[f.name()] = f
	return f
}

// detach removes a parent from a rule set.
func (r *Registry) detach(parent queue.Key, former *ruleSet) {
	former.parents.remove(parent)
	if !former.parents.empty() {
		return
	}
	delete(r.ruleSets, former.key)
	for _, one := range former.rules {
		one.ruleSets.remove(former)
		if one.ruleSets.empty() {
			r.dropRule(one)
		}
	}
}

// dropRule drops a rule that no set contains.
func (r *Registry) dropRule(one *rule) {
	delete(r.rules, one.key)
	delete(r.behind, one)
	one.kind.detach(one)
	if name := one.kind.name(); len(one.kind.rules) == 0 && r.kinds[name] == one.kind {
		delete(r.kinds, name)
	}
}

// recheckLater rechecks a rule whose next watches are behind.
func (r *Registry) recheckLater(one *rule) {
	if len(r.behind) == 0 {
		r.options.After(catchUpInterval, r.recheckBehind)
	}
	r.behind[one] = struct{}{}
}

func (r *Registry) recheckBehind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	waiting := maps.Clone(r.behind)
	clear(r.behind)
	r.switchReady(waiting)
}
