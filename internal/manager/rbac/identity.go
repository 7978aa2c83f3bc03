package rbac

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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

// Impersonation returns the permissions of a process to act as an identity, which is in the
// namespace of each object if its own is "". With constrained, a feature of Kubernetes 1.36,
// they are limited to what the controller does; without, the process can do all that the
// identity may do.
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
