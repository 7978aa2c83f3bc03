package related

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Equal rules are stored once, and so are equal rule sets: thousands of parents with the same rules
// cost as much as one.

// knownKind returns the resource of a kind that rules use already.
func (r *Registry) knownKind(name kindName) (object.Resource, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if used := r.kinds[name]; used != nil {
		return used.resource, true
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
	a := &ruleSet{registry: r, key: key, rules: rules, parents: map[queue.Key]struct{}{}}
	r.ruleSets[key] = a
	for _, one := range rules {
		one.ruleSets[a] = struct{}{}
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
	one := &rule{pattern: p, key: key, serial: r.nextSerial, kind: r.usedKind(p.resource), ruleSets: map[*ruleSet]struct{}{}}
	one.kind.rules++
	r.rules[key] = one
	r.openWatches(one)
	return one
}

func (r *Registry) usedKind(resource object.Resource) *usedKind {
	used := r.kinds[nameOf(resource)]
	if used == nil || used.resource != resource {
		used = &usedKind{resource: resource}
		r.kinds[nameOf(resource)] = used
	}
	return used
}

// detach removes a parent from a rule set.
func (r *Registry) detach(parent queue.Key, former *ruleSet) {
	delete(former.parents, parent)
	if len(former.parents) > 0 {
		return
	}
	delete(r.ruleSets, former.key)
	for _, one := range former.rules {
		delete(one.ruleSets, former)
		if len(one.ruleSets) == 0 {
			r.dropRule(one)
		}
	}
}

// dropRule drops a rule that no set contains.
func (r *Registry) dropRule(one *rule) {
	delete(r.rules, one.key)
	one.close()
	one.kind.rules--
	if name := nameOf(one.resource); one.kind.rules == 0 && r.kinds[name] == one.kind {
		delete(r.kinds, name)
	}
}
