// Package rbac knows which permissions controllers and their process need. It asks the API
// server which of them are missing, and writes the roles that grant them.
package rbac

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Process is what a process needs permissions for beside its controllers.
type Process struct {
	// Namespace is that of Setpoint. PodNamespace is the owner of its webhook configurations; "" for none.
	Namespace, PodNamespace string
	// CertificateSecret is the Secret of the webhook server; zero for none. A provided one is
	// only read. InspectSecret is the name of that of the inspect endpoint; "" for none.
	CertificateSecret    types.NamespacedName
	ProvidedCertificates bool
	InspectSecret        string
	LeaderElection       leader.Election
	// CRDs are those that the program installs.
	CRDs []crds.Manifest
}

// Account is whose permission it is.
type Account int

// The accounts. Without an identity a controller needs everything as Own.
const (
	// Own is the ServiceAccount of the process.
	Own Account = iota
	// Identity is the ServiceAccount that a controller acts as (compile.Identity).
	Identity
)

// permission is one verb on one resource.
type permission struct {
	resource    object.Resource
	subresource string
	verb        string
	// namespace is empty for all namespaces, name for all objects.
	namespace, name string
	account         Account
	// optional means that a controller runs without it, at first.
	optional bool
	// use is what the permission is needed for, to explain it.
	use use
}

// use is a controller, and what it needs a permission for.
type use struct{ controller, purpose string }

// grant is what has to be granted for a permission.
func (n permission) grant() permission {
	n.use, n.optional = use{}, false
	return n
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

// Permissions are verbs on resources.
type Permissions []permission

// on returns verbs on a resource.
func on(resource object.Resource, verbs ...string) Permissions { return onPart(resource, "", verbs...) }

// onPart returns verbs on a subresource.
func onPart(resource object.Resource, subresource string, verbs ...string) Permissions {
	return lists.Map(verbs, func(verb string) permission {
		return permission{resource: resource, subresource: subresource, verb: verb}
	})
}

// On returns verbs on a resource, or on a subresource such as its status, in a namespace; "" for all.
func On(resource object.Resource, subresource, namespace string, verbs ...string) Permissions {
	return onPart(resource, subresource, verbs...).in(namespace)
}

// in limits permissions for namespaced resources to namespaces, of which "" means all.
func (p Permissions) in(namespaces ...string) Permissions {
	var all Permissions
	for _, namespace := range namespaces {
		for _, n := range p {
			if n.resource.Namespaced {
				n.namespace = namespace
			}
			all = append(all, n)
		}
	}
	return all
}

// each changes all permissions.
func (p Permissions) each(change func(n *permission)) Permissions {
	for i := range p {
		change(&p[i])
	}
	return p
}

// named limits permissions to one object.
func (p Permissions) named(name string) Permissions {
	return p.each(func(n *permission) { n.name = name })
}

// to says what permissions are needed for, unless that is known.
func (p Permissions) to(purpose string) Permissions {
	return p.each(func(n *permission) { n.use.purpose = cmp.Or(n.use.purpose, purpose) })
}

// maybe says that a controller runs without the permissions.
func (p Permissions) maybe() Permissions {
	return p.each(func(n *permission) { n.optional = true })
}

// by says which controller needs permissions.
func (p Permissions) by(controller string) Permissions {
	return p.each(func(n *permission) { n.use.controller = controller })
}

// asIdentity says that the ServiceAccount of a controller needs permissions.
func (p Permissions) asIdentity() Permissions {
	return p.each(func(n *permission) { n.account = Identity })
}

// Of returns the permissions of one account.
func (p Permissions) Of(account Account) Permissions {
	return slices.DeleteFunc(slices.Clone(p), func(n permission) bool { return n.account != account })
}

// grants returns what has to be granted, without duplicates.
func (p Permissions) grants() Permissions {
	return Permissions(lists.Map(p, permission.grant)).unique()
}

// unique removes duplicates.
func (p Permissions) unique() Permissions {
	var some Permissions
	seen := map[permission]bool{}
	for _, n := range p {
		if !seen[n] {
			seen[n] = true
			some = append(some, n)
		}
	}
	return some
}

// ForWebhooks converts the permissions that package admission asks for.
func ForWebhooks(wanted []admission.Permission) Permissions {
	return lists.FlatMap(wanted, func(p admission.Permission) []permission {
		return on(p.Resource, p.Verbs...).in(p.Namespace).named(p.Name)
	})
}

// Resources of impersonation. The API server knows no kind for them.
var (
	subjectAccessReviews = object.Resource{Group: "authorization.k8s.io", Version: "v1", Plural: "subjectaccessreviews"}
	// constrainedAccounts is the resource of constrained impersonation (KEP 5284).
	constrainedAccounts = object.Resource{Group: "authentication.k8s.io", Version: "v1", Plural: "serviceaccounts", Namespaced: true}
)

// constrainedVerb is the start of the verbs by which a process may do something as a ServiceAccount.
const constrainedVerb = "impersonate-on:serviceaccount:"

// split gives the permissions of a controller to its identity. The process itself needs only to
// fill the shared cache, so the identity needs no watch; the zero identity is the process.
//
// A list without a watch is no watch of the cache: it is sent as the identity.
func (p Permissions) split(account identity.Account) Permissions {
	if account.Name == "" {
		return p
	}
	var all Permissions
	for _, n := range p {
		if n.verb == "watch" || n.verb == "list" && p.has("watch", n) {
			all = append(all, n)
		}
		if n.account = Identity; n.verb != "watch" {
			all = append(all, n)
		}
	}
	return all
}

// has reports whether there is another verb on the objects of a permission.
func (p Permissions) has(verb string, like permission) bool {
	like.verb = verb
	return slices.ContainsFunc(p, func(n permission) bool { return n.grant() == like.grant() })
}

// Impersonation returns the permissions of a process to act as an identity, which is in the namespace of each object if
// its own is "". With constrained, a feature of Kubernetes 1.36, they are limited to what the controller does; without,
// the process can do all that the identity may do.
func (p Permissions) Impersonation(account identity.Account, constrained bool) Permissions {
	if account.Name == "" {
		return nil
	}
	as := func(resource object.Resource, verbs ...string) Permissions {
		return on(resource, verbs...).in(account.Namespace).named(account.Name)
	}
	all := append(as(object.ServiceAccounts, "get"), on(subjectAccessReviews, "create")...)
	if !constrained {
		return append(all, as(object.ServiceAccounts, "impersonate")...).to("impersonation")
	}
	all = append(all, as(constrainedAccounts, "impersonate:serviceaccount")...)
	for _, n := range p.Of(Identity) {
		n.verb, n.account = constrainedVerb+n.verb, Own
		all = append(all, n)
	}
	return all.to("impersonation")
}
