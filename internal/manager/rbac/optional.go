package rbac

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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
	return append(all, on(object.Namespaces, "get")...).to("finalizers when the ServiceAccount is gone").maybe()
}

// filePermissions returns the permissions to watch credentials and code. They are not in the shared cache: the
// identity itself watches them.
func filePermissions(c *compile.Compiled) Permissions {
	all := append(readPermissions(c.Credentials).to("credentials for hooks"), readPermissions(c.Code.ConfigMaps).to("code of inline hooks")...)
	for i := range all {
		if !c.Account.IsZero() {
			all[i].account = Identity
		}
	}
	return all.maybe()
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
