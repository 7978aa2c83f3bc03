package rbac

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// ForController returns the permissions without which a controller cannot run. One that
// finalizes sets a finalizer on its own object, of this kind, if it has one.
func (o *Process) ForController(kind object.Resource, c *compile.Compiled) Permissions {
	var all Permissions
	finalized := c.Finalizes() && kind != (object.Resource{})
	if finalized {
		all = on(kind, "patch")
	}
	for i := range c.Programs {
		p := &c.Programs[i]
		all = append(all, programPermissions(p).in(p.Namespace)...)
		if finalized {
			all = append(all, on(p.Parent, "patch")...)
		}
	}
	for i := range c.Handlers {
		all = append(all, handlerPermissions(&c.Handlers[i])...)
	}
	if c.Admission != nil {
		all = append(all, ForWebhooks(slices.Concat(certs.Permissions(o.CertificateSecret), register.Permissions(o.Namespace)))...)
	}
	return all.unique()
}

// programPermissions returns the permissions of one program. Children need update with every
// strategy: to adopt, release and label them.
func programPermissions(p *compose.Program) Permissions {
	all := on(p.Parent, "get", "list", "watch")
	if p.Finalize != nil || p.Mark != (plan.Mark{}) {
		all = append(all, on(p.Parent, "update")...)
	}
	if p.Parent.Status {
		all = append(all, onPart(p.Parent, "status", "update")...)
	}
	for _, rule := range p.Children {
		all = append(all, on(rule.Resource, "get", "list", "watch", "create", "update", "delete")...)
		if rule.Strategy == plan.ServerSide {
			all = append(all, on(rule.Resource, "patch")...)
		}
	}
	if p.Children.Rolling() {
		all = append(all, on(plan.ControllerRevisions, "get", "list", "watch", "create", "update", "delete")...)
	}
	for _, resource := range p.Reads {
		all = append(all, on(resource, "get", "list", "watch")...)
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
func handlerPermissions(p *handle.Program) Permissions {
	namespaces := handlerNamespaces(p)
	all := handledObjectPermissions(p).in(namespaces...)
	for _, read := range p.Reads {
		all = append(all, on(read, "list").in(namespaces...)...)
	}
	for _, w := range p.Writes {
		all = append(all, writePermissions(w).in(w.Namespace)...)
	}
	if p.KeepsPreviousState() {
		if !p.Resource.Namespaced {
			namespaces = []string{p.Namespace}
		}
		all = append(all, on(plan.ControllerRevisions, "get", "list", "create", "delete").in(namespaces...)...)
	}
	return all
}

// handledObjectPermissions returns the permissions for handled objects and their children.
func handledObjectPermissions(p *handle.Program) Permissions {
	all := on(p.Resource, "get", "list", "watch")
	if len(p.Handlers) == 0 {
		return all // The objects are only watched.
	}
	all = append(all, on(p.Resource, "patch")...)
	if p.Resource.Status {
		all = append(all, onPart(p.Resource, "status", "patch")...)
	}
	for _, owned := range p.Owns {
		all = append(all, on(owned, "get", "list", "watch", "create", "patch", "delete")...)
	}
	return all
}

// writePermissions returns the permissions to write objects that are not owned. Those to be
// deleted or evicted are read first.
func writePermissions(w handle.WritePermission) Permissions {
	var all Permissions
	if w.Apply {
		all = on(w.Resource, "create", "patch")
	}
	evicts := w.Evict && w.Resource.Group == "" && w.Resource.Plural == "pods"
	if w.Delete || evicts {
		all = append(all, on(w.Resource, "get", "list")...)
	}
	if w.Delete {
		all = append(all, on(w.Resource, "delete")...)
	}
	if evicts {
		all = append(all, onPart(w.Resource, "eviction", "create")...)
	}
	return all
}

// optionalPermissions returns permissions without which a controller runs all the same: for
// events, owner references, CRDs, and the owner of webhook configurations.
func (o *Process) optionalPermissions(c *compile.Compiled) Permissions {
	all := append(eventPermissions(c), ownerReferencePermissions(c)...)
	if c.Admission != nil && o.PodNamespace != "" {
		all = append(all, on(object.Namespaces, "get").named(o.PodNamespace)...)
	}
	managed, written, read := c.Resources()
	for _, resource := range slices.Concat(c.AdmissionKinds, managed, written, read) {
		if resource.Custom {
			all = append(all, crdPermissions(resource)...)
		}
	}
	return all
}

// ownerReferencePermissions returns the permissions for owner references with
// blockOwnerDeletion. They are needed only with the admission plugin
// OwnerReferencesPermissionEnforcement, so no controller is refused without them.
func ownerReferencePermissions(c *compile.Compiled) Permissions {
	var all Permissions
	for i := range c.Programs {
		if p := &c.Programs[i]; len(p.Children) > 0 {
			all = append(all, onPart(p.Parent, "finalizers", "update").in(p.Namespace)...)
		}
	}
	for i := range c.Handlers {
		p := &c.Handlers[i]
		if len(p.Owns) > 0 || slices.ContainsFunc(p.Writes, func(w handle.WritePermission) bool { return w.Apply }) {
			all = append(all, onPart(p.Resource, "finalizers", "update").in(handlerNamespaces(p)...)...)
		}
	}
	return all
}

// eventPermissions returns the permissions for events on the objects of a controller.
func eventPermissions(c *compile.Compiled) Permissions {
	var all Permissions
	if c.Admission != nil {
		// A review may record events on any object.
		all = on(object.Events, "create", "patch")
	}
	for i := range c.Programs {
		all = append(all, eventsOn(c.Programs[i].Parent, c.Programs[i].Namespace)...)
	}
	for i := range c.Handlers {
		if p := &c.Handlers[i]; len(p.Handlers) > 0 {
			all = append(all, eventsOn(p.Resource, handlerNamespaces(p)...)...)
		}
	}
	return all
}
