// Package rbac knows which permissions controllers and their process need. It asks the API
// server which of them are missing, and writes the roles that grant them.
package rbac

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Process is what a process needs permissions for beside its controllers.
type Process struct {
	// Namespace is that of Setpoint. PodNamespace is the owner of its webhook configurations;
	// "" for none.
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
func on(resource object.Resource, verbs ...string) Permissions {
	all := make(Permissions, len(verbs))
	for i, verb := range verbs {
		all[i] = permission{resource: resource, verb: verb}
	}
	return all
}

// On returns verbs on a resource, or on a subresource such as its status, in a namespace; "" for all.
func On(resource object.Resource, subresource, namespace string, verbs ...string) Permissions {
	all := on(resource, verbs...).in(namespace)
	for i := range all {
		all[i].subresource = subresource
	}
	return all
}

// onPart returns one verb on a subresource.
func onPart(resource object.Resource, subresource, verb string) Permissions {
	return Permissions{{resource: resource, subresource: subresource, verb: verb}}
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

// named limits permissions to one object.
func (p Permissions) named(name string) Permissions {
	for i := range p {
		p[i].name = name
	}
	return p
}

// to says what permissions are needed for, unless that is known.
func (p Permissions) to(purpose string) Permissions {
	for i := range p {
		if p[i].use.purpose == "" {
			p[i].use.purpose = purpose
		}
	}
	return p
}

// maybe says that a controller runs without the permissions.
func (p Permissions) maybe() Permissions {
	for i := range p {
		p[i].optional = true
	}
	return p
}

// by says which controller needs permissions.
func (p Permissions) by(controller string) Permissions {
	for i := range p {
		p[i].use.controller = controller
	}
	return p
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
	var all Permissions
	for _, p := range wanted {
		all = append(all, on(p.Resource, p.Verbs...).in(p.Namespace).named(p.Name)...)
	}
	return all
}
