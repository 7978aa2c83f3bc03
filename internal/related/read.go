package related

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
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

// Access says what a user may read.
type Access interface {
	CheckRead(ctx context.Context, user string, resource object.Resource, namespace, name string) error
	CheckList(ctx context.Context, user string, resource object.Resource, namespaces ...string) error
}

// CheckReads returns an error unless a user may read all of it: the caches have what Setpoint itself may read.
func CheckReads(ctx context.Context, by Access, user string, reads []Read) error {
	for _, read := range reads {
		if read.Names == nil {
			if err := by.CheckList(ctx, user, read.Resource, read.Namespace); err != nil {
				return err
			}
		}
		for _, name := range read.Names {
			if err := by.CheckRead(ctx, user, read.Resource, read.Namespace, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Select returns those of some objects that the rules of a parent select. Its errors are those of Set.
func (r *Registry) Select(ctx context.Context, parent queue.Key, rules []hook.RelatedRule, all []*object.Object) ([]*object.Object,
	error) {
	patterns, err := r.patterns(ctx, parent, rules)
	namespaces := map[string]labels.Labels{}
	for _, o := range all {
		if o.GroupKind() == object.Namespaces.GroupKind() {
			namespaces[o.Name()] = o.Labels()
		}
	}
	return lists.Filter(all, func(o *object.Object) bool {
		return slices.ContainsFunc(patterns, func(p pattern) bool {
			near := namespaces[o.Namespace()]
			return p.resource.GroupKind() == o.GroupKind() && p.matches(o) &&
				(p.namespaceLabels == nil || near != nil && p.namespaceLabels.Matches(near))
		})
	}), err
}

// ReadsOf returns what rules would read if a parent had them. Its errors are those of Set.
func (r *Registry) ReadsOf(ctx context.Context, parent queue.Key, rules []hook.RelatedRule) ([]Read, error) {
	patterns, err := r.patterns(ctx, parent, rules)
	return lists.FlatMap(patterns, func(p pattern) []Read { return p.reads() }), err
}

// Reads returns what the rules of a parent read. It depends on the rules, not on the objects that exist.
func (r *Registry) Reads(parent queue.Key) []Read {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.parents[parent]; a != nil {
		return lists.FlatMap(a.rules, (*sharedRule).reads)
	}
	return nil
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
