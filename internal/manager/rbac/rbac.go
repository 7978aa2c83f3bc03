// Package rbac knows which permissions controllers and their process need. It asks the API
// server which of them are missing, and writes the roles that grant them.
//
// Package manager calls it before a controller starts, and the SDK for the command rbac.
package rbac

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Process is what a process needs permissions for beside its controllers.
type Process struct {
	// Namespace is that of Setpoint. PodNamespace is the owner of its webhook configurations;
	// "" for none.
	Namespace, PodNamespace string
	// CertificateSecret is the Secret of the webhook server; zero for none. InspectSecret is
	// the name of that of the inspect endpoint; "" for none.
	CertificateSecret types.NamespacedName
	InspectSecret     string
	LeaderElection    leader.Election
	// CRDs are those that the program installs.
	CRDs []crds.Manifest
}

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

// unique removes duplicates.
func (p Permissions) unique() Permissions {
	var some Permissions
	for _, n := range p {
		if !slices.Contains(some, n) {
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
