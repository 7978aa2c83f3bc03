package rbac

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Optional returns permissions without which a controller runs all the same, at first: for events,
// owner references, credentials for hooks, and code that the controller has read before.
func (o *Process) Optional(c *compile.Compiled) Permissions {
	all := append(eventPermissions(c).to("events"), ownerReferencePermissions(c).to("owner references")...).split(c.Account)
	all = append(all, releasePermissions(c).to("finalizers when the ServiceAccount is gone")...)
	// Credentials and code are not in the shared cache: the identity itself watches them.
	secrets := append(readPermissions(c.Credentials).to("credentials for hooks"),
		readPermissions(c.Code.ConfigMaps).to("code of inline hooks")...)
	for i := range secrets {
		if !c.Account.IsZero() {
			secrets[i].account = Identity
		}
	}
	return append(all, secrets...).by(c.Name())
}

// releasePermissions returns the permissions of Setpoint itself to remove the finalizer of a controller that acts as a
// ServiceAccount: it may be gone before the objects are, with a namespace above all.
func releasePermissions(c *compile.Compiled) Permissions {
	if c.Account.IsZero() || !c.Finalizes() {
		return nil
	}
	var all Permissions
	for i := range c.Programs {
		all = append(all, on(c.Programs[i].Parent, "patch").in(c.Programs[i].Namespace)...)
	}
	for i := range c.Handlers {
		all = append(all, on(c.Handlers[i].Resource, "patch").in(c.Handlers[i].NamespacesOf(c.Handlers[i].Resource)...)...)
	}
	return append(all, on(object.Namespaces, "get")...)
}

// readPermissions returns the permissions to watch Secrets and ConfigMaps.
func readPermissions(of []object.Ref) Permissions {
	var all Permissions
	for _, ref := range of {
		resource := object.Resource{Version: ref.Version, Plural: ref.Plural, Kind: ref.Kind.Kind, Namespaced: true}
		all = append(all, on(resource, "get", "list", "watch").in(ref.Namespace).named(ref.Name)...)
	}
	return all
}

// definitions returns the permissions of a program to read CRDs, and the owner of its webhook
// configurations. `setpoint run` needs them for all CRDs anyway.
func (o *Process) definitions(c *compile.Compiled) Permissions {
	var all Permissions
	if c.Admission != nil && o.PodNamespace != "" {
		all = append(all, on(object.Namespaces, "get").named(o.PodNamespace).to("webhooks")...)
	}
	managed, written, read := c.Resources()
	for _, resource := range slices.Concat(c.AdmissionKinds, managed, written, read) {
		if resource.Custom {
			all = append(all, crdPermissions(resource).to("CRDs")...)
		}
	}
	return all.by(c.Name())
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
		if len(p.Owns) > 0 || slices.ContainsFunc(p.Writes, func(w permit.Write) bool { return w.Apply }) {
			all = append(all, onPart(p.Resource, "finalizers", "update").in(p.NamespacesOf(p.Resource)...)...)
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
			all = append(all, eventsOn(p.Resource, p.NamespacesOf(p.Resource)...)...)
		}
	}
	return all
}
