package host

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// need is one thing a controller has to be allowed.
type need struct {
	resource    object.Resource
	subresource string
	verb        string
	// namespace is where; everywhere if empty. name is that of the only object
	// concerned, if it is but one.
	namespace, name string
}

func (n need) String() string { return n.verb + " " + n.object() }

// object is what the permission is about.
func (n need) object() string {
	name := n.resource.String()
	if n.subresource != "" {
		name += "/" + n.subresource
	}
	if n.name != "" {
		name += " " + n.name
	}
	if n.namespace != "" {
		name += " in " + n.namespace
	}
	return name
}

// in says that it is enough to be allowed each in one namespace, of those that
// live in namespaces.
func in(namespace string, all []need) []need {
	for i := range all {
		if all[i].resource.Namespaced {
			all[i].namespace = namespace
		}
	}
	return all
}

func verbs(resource object.Resource, names ...string) []need {
	all := make([]need, len(names))
	for i, name := range names {
		all[i] = need{resource: resource, verb: name}
	}
	return all
}

// needs are the permissions that a controller of some kind takes, each once. One
// that finalizes keeps its own object, if it has one, until the parents are released.
func needs(kind object.Resource, c *compile.Compiled, o *Options) []need {
	var all []need
	if c.Finalizes() && kind != (object.Resource{}) {
		all = verbs(kind, "patch")
	}
	for i := range c.Programs {
		p := &c.Programs[i]
		all = append(all, in(p.Namespace, needsOf(p))...)
		if c.Finalizes() && kind != (object.Resource{}) {
			all = append(all, verbs(p.Parent, "patch")...)
		}
	}
	for i := range c.Reactions {
		all = append(all, needsOfReaction(&c.Reactions[i])...)
	}
	if c.Admission != nil {
		all = append(all, needsOfAdmission(o)...)
	}
	return once(all)
}

// needsOfAdmission are those of being asked before objects are stored.
func needsOfAdmission(o *Options) []need {
	return needsOfPermissions(admission.Permissions(o.reviewSecret(), o.Namespace))
}

func needsOfPermissions(permissions []admission.Permission) []need {
	var all []need
	for _, p := range permissions {
		for _, verb := range p.Verbs {
			all = append(all, need{resource: p.Resource, verb: verb, namespace: p.Namespace, name: p.Name})
		}
	}
	return all
}

// needsOfHome are for the namespace to own what is registered. Who lacks it registers
// all the same.
func needsOfHome(c *compile.Compiled, o *Options) []need {
	if c.Admission == nil || o.home() == "" {
		return nil
	}
	return named(o.home(), verbs(namespaces, "get"))
}

// once leaves out what was needed before.
func once(all []need) []need {
	var some []need
	for _, n := range all {
		if !slices.Contains(some, n) {
			some = append(some, n)
		}
	}
	return some
}

// needsOf are those of one program. Children are updated whatever the method: to
// adopt, to release and to label them.
func needsOf(p *engine.Program) []need {
	all := verbs(p.Parent, "get", "list", "watch")
	if p.Finalize != nil || p.Mark != (plan.Mark{}) {
		all = append(all, verbs(p.Parent, "update")...)
	}
	if p.Parent.Status {
		all = append(all, need{resource: p.Parent, subresource: "status", verb: "update"})
	}
	for _, rule := range p.Children {
		all = append(all, verbs(rule.Resource, "get", "list", "watch", "create", "update", "delete")...)
		if rule.Strategy == plan.ServerSide {
			all = append(all, need{resource: rule.Resource, verb: "patch"})
		}
	}
	if p.Children.Rolling() {
		all = append(all, verbs(plan.ControllerRevisions, "get", "list", "watch", "create", "update", "delete")...)
	}
	for _, resource := range p.Reads {
		all = append(all, verbs(resource, "get", "list", "watch")...)
	}
	return all
}

// spaces are the namespaces that handlers are limited to; "" stands for all.
func spaces(p *react.Program) []string {
	if len(p.Namespaces) == 0 || !p.Resource.Namespaced {
		return []string{""}
	}
	return p.Namespaces
}

// needsOfReaction are those of handlers: in each of the namespaces they are limited
// to, for themselves.
func needsOfReaction(p *react.Program) []need {
	var all []need
	for _, namespace := range spaces(p) {
		all = append(all, in(namespace, needsBeside(p))...)
	}
	for _, read := range p.Reads {
		for _, namespace := range spaces(p) {
			all = append(all, in(namespace, verbs(read, "list"))...)
		}
	}
	for _, w := range p.Writes {
		all = append(all, in(w.Namespace, needsOfWrite(w))...)
	}
	if p.KeepsOld() {
		for _, namespace := range shelves(p) {
			all = append(all, in(namespace, verbs(plan.ControllerRevisions, "get", "list", "create", "delete"))...)
		}
	}
	return all
}

// shelves are the namespaces in which it is kept what handlers have dealt with.
func shelves(p *react.Program) []string {
	if p.Resource.Namespaced {
		return spaces(p)
	}
	return []string{p.Namespace}
}

// needsBeside are those of the handled objects and of what they own.
func needsBeside(p *react.Program) []need {
	all := verbs(p.Resource, "get", "list", "watch")
	if len(p.Handlers) == 0 {
		return all // Somebody wants to know of them.
	}
	all = append(all, verbs(p.Resource, "patch")...)
	if p.Resource.Status {
		all = append(all, need{resource: p.Resource, subresource: "status", verb: "patch"})
	}
	for _, owned := range p.Owns {
		all = append(all, verbs(owned, "get", "list", "watch", "create", "patch", "delete")...)
	}
	return all
}

// needsOfWrite are those of writing what is not owned. What is deleted is looked
// or evicted is looked at before.
func needsOfWrite(w react.Write) []need {
	var all []need
	if w.Apply {
		all = verbs(w.Resource, "create", "patch")
	}
	evicts := w.Evict && w.Resource.Group == "" && w.Resource.Plural == "pods"
	if w.Delete || evicts {
		all = append(all, verbs(w.Resource, "get", "list")...)
	}
	if w.Delete {
		all = append(all, verbs(w.Resource, "delete")...)
	}
	if evicts {
		all = append(all, need{resource: w.Resource, subresource: "eviction", verb: "create"})
	}
	return all
}
