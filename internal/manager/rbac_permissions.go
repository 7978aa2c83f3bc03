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

// permission is one verb on one resource.
type permission struct {
	resource    object.Resource
	subresource string
	verb        string
	// namespace is empty for all namespaces, name for all objects.
	namespace, name string
}

func (n permission) String() string { return n.verb + " " + n.target() }

// target names what the permission is for.
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

// inNamespace limits permissions for namespaced resources to one namespace.
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

// controllerPermissions returns the permissions of a controller, without duplicates. One that
// finalizes sets a finalizer on its own object, if it has one.
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

// admissionPermissions returns the permissions to register webhooks.
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

// ownNamespacePermissions returns the permission to make the namespace the owner of webhook
// configurations. It is optional.
func ownNamespacePermissions(c *compile.Compiled, o *Options) []permission {
	if c.Admission == nil || o.ownNamespace() == "" {
		return nil
	}
	return forName(o.ownNamespace(), permissionsFor(namespaceResource, "get"))
}

// uniquePermissions removes duplicates.
func uniquePermissions(all []permission) []permission {
	var some []permission
	for _, n := range all {
		if !slices.Contains(some, n) {
			some = append(some, n)
		}
	}
	return some
}

// programPermissions returns the permissions of one program. Children need update with every
// strategy: to adopt, release and label them.
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

// handlerNamespaces returns the namespaces of handlers; "" for all.
func handlerNamespaces(p *handle.Program) []string {
	if len(p.Namespaces) == 0 || !p.Resource.Namespaced {
		return []string{""}
	}
	return p.Namespaces
}

// handlerPermissions returns the permissions of handlers in each of their namespaces.
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

// revisionNamespaces returns the namespaces in which previous states are stored.
func revisionNamespaces(p *handle.Program) []string {
	if p.Resource.Namespaced {
		return handlerNamespaces(p)
	}
	return []string{p.Namespace}
}

// handledObjectPermissions returns the permissions for handled objects and their children.
func handledObjectPermissions(p *handle.Program) []permission {
	all := permissionsFor(p.Resource, "get", "list", "watch")
	if len(p.Handlers) == 0 {
		return all // The objects are only watched.
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

// writePermissions returns the permissions to write objects that are not owned. Those to be
// deleted or evicted are read first.
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
