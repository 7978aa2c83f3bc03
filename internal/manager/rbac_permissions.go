package manager

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// permission is one thing a controller has to be allowed.
type permission struct {
	resource    object.Resource
	subresource string
	verb        string
	// namespace is where; everywhere if empty. name is that of the only object
	// concerned, if it is but one.
	namespace, name string
}

func (n permission) String() string { return n.verb + " " + n.target() }

// target is what the permission is about.
func (n permission) target() string {
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

// inNamespace says that it is enough to be allowed each in one namespace, of those that
// live in namespaces.
func inNamespace(namespace string, all []permission) []permission {
	for i := range all {
		if all[i].resource.Namespaced {
			all[i].namespace = namespace
		}
	}
	return all
}

func permissionsFor(resource object.Resource, names ...string) []permission {
	all := make([]permission, len(names))
	for i, name := range names {
		all[i] = permission{resource: resource, verb: name}
	}
	return all
}

// controllerPermissions are the permissions that a controller of some kind takes, each once. One
// that finalizes keeps its own object, if it has one, until the parents are released.
func controllerPermissions(kind object.Resource, c *compile.Compiled, o *Options) []permission {
	var all []permission
	if c.Finalizes() && kind != (object.Resource{}) {
		all = permissionsFor(kind, "patch")
	}
	for i := range c.Programs {
		p := &c.Programs[i]
		all = append(all, inNamespace(p.Namespace, programPermissions(p))...)
		if c.Finalizes() && kind != (object.Resource{}) {
			all = append(all, permissionsFor(p.Parent, "patch")...)
		}
	}
	for i := range c.Handlers {
		all = append(all, handlerPermissions(&c.Handlers[i])...)
	}
	if c.Admission != nil {
		all = append(all, admissionPermissions(o)...)
	}
	return uniquePermissions(all)
}

// admissionPermissions are those of being asked before objects are stored.
func admissionPermissions(o *Options) []permission {
	return convertPermissions(admission.Permissions(o.certificateSecret(), o.Namespace))
}

func convertPermissions(permissions []admission.Permission) []permission {
	var all []permission
	for _, p := range permissions {
		for _, verb := range p.Verbs {
			all = append(all, permission{resource: p.Resource, verb: verb, namespace: p.Namespace, name: p.Name})
		}
	}
	return all
}

// ownNamespacePermissions are for the namespace to own what is registered. Who lacks it registers
// all the same.
func ownNamespacePermissions(c *compile.Compiled, o *Options) []permission {
	if c.Admission == nil || o.ownNamespace() == "" {
		return nil
	}
	return forName(o.ownNamespace(), permissionsFor(namespaceResource, "get"))
}

// uniquePermissions leaves out what was needed before.
func uniquePermissions(all []permission) []permission {
	var some []permission
	for _, n := range all {
		if !slices.Contains(some, n) {
			some = append(some, n)
		}
	}
	return some
}

// programPermissions are those of one program. Children are updated whatever the method: to
// adopt, to release and to label them.
func programPermissions(p *compose.Program) []permission {
	all := permissionsFor(p.Parent, "get", "list", "watch")
	if p.Finalize != nil || p.Mark != (plan.Mark{}) {
		all = append(all, permissionsFor(p.Parent, "update")...)
	}
	if p.Parent.Status {
		all = append(all, permission{resource: p.Parent, subresource: "status", verb: "update"})
	}
	for _, rule := range p.Children {
		all = append(all, permissionsFor(rule.Resource, "get", "list", "watch", "create", "update", "delete")...)
		if rule.Strategy == plan.ServerSide {
			all = append(all, permission{resource: rule.Resource, verb: "patch"})
		}
	}
	if p.Children.Rolling() {
		all = append(all, permissionsFor(plan.ControllerRevisions, "get", "list", "watch", "create", "update", "delete")...)
	}
	for _, resource := range p.Reads {
		all = append(all, permissionsFor(resource, "get", "list", "watch")...)
	}
	return all
}

// handlerNamespaces are the namespaces that handlers are limited to; "" stands for all.
func handlerNamespaces(p *handle.Program) []string {
	if len(p.Namespaces) == 0 || !p.Resource.Namespaced {
		return []string{""}
	}
	return p.Namespaces
}

// handlerPermissions are those of handlers: in each of the namespaces they are limited
// to, for themselves.
func handlerPermissions(p *handle.Program) []permission {
	var all []permission
	for _, namespace := range handlerNamespaces(p) {
		all = append(all, inNamespace(namespace, handledObjectPermissions(p))...)
	}
	for _, read := range p.Reads {
		for _, namespace := range handlerNamespaces(p) {
			all = append(all, inNamespace(namespace, permissionsFor(read, "list"))...)
		}
	}
	for _, w := range p.Writes {
		all = append(all, inNamespace(w.Namespace, writePermissions(w))...)
	}
	if p.KeepsPreviousState() {
		for _, namespace := range revisionNamespaces(p) {
			all = append(all, inNamespace(namespace, permissionsFor(plan.ControllerRevisions, "get", "list", "create", "delete"))...)
		}
	}
	return all
}

// revisionNamespaces are the namespaces in which it is kept what handlers have dealt with.
func revisionNamespaces(p *handle.Program) []string {
	if p.Resource.Namespaced {
		return handlerNamespaces(p)
	}
	return []string{p.Namespace}
}

// handledObjectPermissions are those of the handled objects and of what they own.
func handledObjectPermissions(p *handle.Program) []permission {
	all := permissionsFor(p.Resource, "get", "list", "watch")
	if len(p.Handlers) == 0 {
		return all // Somebody wants to know of them.
	}
	all = append(all, permissionsFor(p.Resource, "patch")...)
	if p.Resource.Status {
		all = append(all, permission{resource: p.Resource, subresource: "status", verb: "patch"})
	}
	for _, owned := range p.Owns {
		all = append(all, permissionsFor(owned, "get", "list", "watch", "create", "patch", "delete")...)
	}
	return all
}

// writePermissions are those of writing what is not owned. What is deleted is looked
// or evicted is looked at before.
func writePermissions(w handle.WritePermission) []permission {
	var all []permission
	if w.Apply {
		all = permissionsFor(w.Resource, "create", "patch")
	}
	evicts := w.Evict && w.Resource.Group == "" && w.Resource.Plural == "pods"
	if w.Delete || evicts {
		all = append(all, permissionsFor(w.Resource, "get", "list")...)
	}
	if w.Delete {
		all = append(all, permissionsFor(w.Resource, "delete")...)
	}
	if evicts {
		all = append(all, permission{resource: w.Resource, subresource: "eviction", verb: "create"})
	}
	return all
}
