package rbac

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Controller is what a controller object needs.
type Controller struct {
	Name     string
	Identity identity.Account
	// Permissions are all, those to run at first and those that it needs later.
	Permissions Permissions
}

// Controller returns what a controller needs whose object is of a kind.
func (o *Process) Controller(kind object.Resource, c *compile.Compiled) Controller {
	return Controller{c.Name(), c.Account, o.needs(kind, c)}
}

// forController returns the permissions without which a controller cannot run, those of its process and those of its
// identity. One that finalizes sets a finalizer on its own object, of this kind, if it has one.
func (o *Process) forController(kind object.Resource, c *compile.Compiled) Permissions {
	return slices.DeleteFunc(o.needs(kind, c), func(n permission) bool { return n.optional })
}

// needs returns the permissions of a controller. It runs without the optional ones, at first: for events, owner
// references, credentials for hooks, and code that it has read before.
func (o *Process) needs(kind object.Resource, c *compile.Compiled) Permissions {
	var all Permissions
	finalized := c.Finalizes() && kind != (object.Resource{})
	for i := range c.Programs {
		p := &c.Programs[i]
		all = append(all, programPermissions(p)...)
		if finalized {
			all = append(all, on(p.Parent, "patch").in(p.Namespace).to("finalizer")...)
		}
	}
	for i := range c.Handlers {
		all = append(all, handlerPermissions(&c.Handlers[i])...)
	}
	if c.Admission != nil {
		// A review may record events on any object.
		all = append(all, on(object.Events, "create", "patch").to("events").maybe()...)
	}
	all = slices.Concat(o.processPermissions(c), authorPermissions(c), all.split(c.Account), releasePermissions(c), filePermissions(c))
	if finalized {
		all = append(on(kind, "patch").to("finalizer"), all...)
	}
	return all.by(c.Name()).unique()
}

// processPermissions returns those that a process needs for a controller, whatever its identity.
func (o *Process) processPermissions(c *compile.Compiled) Permissions {
	var all Permissions
	if c.Rollout != nil {
		all = on(plan.ControllerRevisions, "get", "list", "create", "update", "delete").in(o.Namespace).to("rollouts of logic")
	}
	if c.Admission == nil {
		return all
	}
	return append(all, ForWebhooks(slices.Concat(certs.Permissions(o.CertificateSecret, o.ProvidedCertificates),
		register.Permissions(o.Namespace))).to("webhooks")...)
}

// authorPermissions returns what the identity of webhooks needs, although the process registers them: they
// receive the objects of all users.
func authorPermissions(c *compile.Compiled) Permissions {
	if c.Admission == nil || c.Account.IsZero() {
		return nil
	}
	return ForWebhooks(register.AuthorPermissions()).to("webhooks").asIdentity()
}

// programPermissions returns the permissions of one program. Children need update with every
// strategy: to adopt, release and label them.
func programPermissions(p *composite.Program) Permissions {
	parents := on(p.Parent, "get", "list", "watch").to("parents")
	if p.Finalizes() || p.Mark != (plan.Mark{}) {
		parents = append(parents, on(p.Parent, "update").to("parents")...)
	}
	if p.Parent.Status {
		parents = append(parents, onPart(p.Parent, "status", "update").to("status of parents")...)
	}
	all := parents.in(p.Namespace)
	for _, rule := range p.Children {
		children := on(rule.Resource, "get", "list", "watch", "create", "update", "delete")
		if rule.Strategy == plan.ServerSide {
			children = append(children, on(rule.Resource, "patch")...)
		}
		all = append(all, children.in(p.NamespacesOf(rule.Resource)...).to("children")...)
	}
	if p.Children.Rolling() {
		all = append(all, on(plan.ControllerRevisions, "get", "list", "watch", "create", "update",
			"delete").in(p.RevisionNamespace()).to("rolling updates")...)
	}
	for _, resource := range p.Reads {
		all = append(all, on(resource, "get", "list", "watch").in(p.Scope.NamespacesOf(resource, p.Namespace)...).to("related objects")...)
	}
	if len(p.Children) > 0 {
		all = append(all, ownerReferences(p.Parent, p.Namespace)...)
	}
	return append(all, eventsOn(p.Parent, p.Namespace)...)
}

// ownerReferences returns the permissions for owner references with blockOwnerDeletion. They are needed only with
// the admission plugin OwnerReferencesPermissionEnforcement, so no controller is refused without them.
func ownerReferences(to object.Resource, namespaces ...string) Permissions {
	return onPart(to, "finalizers", "update").in(namespaces...).to("owner references").maybe()
}

// handlerPermissions returns the permissions of handlers in each of their namespaces.
func handlerPermissions(p *handler.Program) Permissions {
	namespaces := p.NamespacesOf(p.Resource)
	all := handledObjectPermissions(p)
	for _, read := range p.Reads {
		all = append(all, on(read, "list").in(namespaces...).to("reads of handlers")...)
	}
	for i := range p.Related {
		related := &p.Related[i]
		all = append(all, on(related.Resource, "get", "list", "watch").in(related.WatchNamespaces()...).to("related objects")...)
	}
	for _, w := range p.Writes {
		all = append(all, writePermissions(w).in(writeNamespaces(p, w)...).to("writes of handlers")...)
	}
	return all
}

// handledObjectPermissions returns the permissions for handled objects and their children.
func handledObjectPermissions(p *handler.Program) Permissions {
	handled := on(p.Resource, "get", "list", "watch").to("handled objects")
	if len(p.Handlers) == 0 {
		return handled.in(p.NamespacesOf(p.Resource)...) // The objects are only watched.
	}
	handled = append(handled, on(p.Resource, "patch").to("handled objects")...)
	if p.Resource.Status {
		handled = append(handled, onPart(p.Resource, "status", "patch").to("status of handled objects")...)
	}
	namespaces := p.NamespacesOf(p.Resource)
	all := append(handled.in(namespaces...), eventsOn(p.Resource, namespaces...)...)
	if len(p.Owns) > 0 || slices.ContainsFunc(p.Writes, func(w permit.Write) bool { return w.Apply }) {
		all = append(all, ownerReferences(p.Resource, namespaces...)...)
	}
	for _, owned := range p.Owns {
		all = append(all, on(owned, "get", "list", "watch", "create", "patch",
			"delete").in(p.NamespacesOf(owned)...).to("owned objects")...)
	}
	return all
}

// writeNamespaces returns the namespaces of a write permission: all of the program if it names
// none, and none if the program is limited to others.
func writeNamespaces(p *handler.Program, w permit.Write) []string {
	switch {
	case w.Namespace == "":
		return p.NamespacesOf(w.Resource)
	case len(p.Namespaces) > 0 && !slices.Contains(p.Namespaces, w.Namespace):
		return nil
	}
	return []string{w.Namespace}
}

// writePermissions returns the permissions to write objects that are not owned. Those to be
// deleted or evicted are read first.
func writePermissions(w permit.Write) Permissions {
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
	all := append(readPermissions(c.Credentials).to("credentials for hooks"),
		readPermissions(c.Code.ConfigMaps).to("code of inline hooks")...).maybe()
	if c.Account.IsZero() {
		return all
	}
	return all.asIdentity()
}

// readPermissions returns the permissions to watch Secrets and ConfigMaps.
func readPermissions(of []object.Ref) Permissions {
	return lists.FlatMap(of, func(ref object.Ref) []permission {
		resource := object.Resource{Version: ref.Version, Plural: ref.Plural, Kind: ref.Kind.Kind, Namespaced: true}
		return on(resource, "get", "list", "watch").in(ref.Namespace).named(ref.Name)
	})
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
			all = append(all, on(crds.Resource, "get", "list", "watch").named(crds.NameOf(resource)).to("CRDs")...)
		}
	}
	return all.by(c.Name())
}

// eventsOn returns the permissions for events on objects. Those on cluster-scoped objects are in the default namespace.
func eventsOn(resource object.Resource, namespaces ...string) Permissions {
	if !resource.Namespaced {
		namespaces = []string{metav1.NamespaceDefault}
	}
	return on(object.Events, "create", "patch").in(namespaces...).to("events").maybe()
}
