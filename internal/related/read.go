package related

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Read is what a client would have to read to find the objects of a rule.
type Read struct {
	Resource object.Resource
	// Namespace is empty for all namespaces and for cluster-scoped kinds.
	Namespace string
	// Names are the objects to get; nil for a list.
	Names []string
}

// Reads returns what the rules of a parent read. It depends on the rules, not on the objects that exist.
func (r *Registry) Reads(parent queue.Key) []Read {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Read
	if a := r.parents[parent]; a != nil {
		for _, one := range a.rules {
			all = append(all, one.reads()...)
		}
	}
	return all
}

func (p *pattern) reads() []Read {
	switch {
	case p.namespaceLabels != nil:
		return []Read{{Resource: object.Namespaces}, {Resource: p.resource}}
	case p.namesAll():
		return []Read{{p.resource, p.namespace, p.names}}
	}
	return []Read{{Resource: p.resource, Namespace: p.namespace}}
}
