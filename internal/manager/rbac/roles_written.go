package rbac

import (
	"slices"
	"strings"

	rbac "k8s.io/api/rbac/v1"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Resources of RBAC. Those that refer to roles, and the roles.
var (
	roleResource        = object.Resource{Group: rbac.GroupName, Version: "v1", Plural: "roles", Kind: "Role", Namespaced: true}
	clusterRoleResource = object.Resource{Group: rbac.GroupName, Version: "v1", Plural: "clusterroles", Kind: "ClusterRole"}
)

// writesRoles and writesBindings report whether a permission creates roles, or bindings.
func (n permission) writesRoles() bool {
	return n.verb == "create" && n.resource.Group == rbac.GroupName && (n.resource.Plural == "roles" || n.resource.Plural == "clusterroles")
}

func (n permission) writesBindings() bool {
	return n.verb == "create" && n.resource.Group == rbac.GroupName && (n.resource.Plural == "rolebindings" ||
		n.resource.Plural == "clusterrolebindings")
}

// rolePermissions returns what the API server requires beyond the verbs on roles and bindings: it
// refuses those that grant more than their writer has.
func (g *Grant) rolePermissions(all Permissions) Permissions {
	var more Permissions
	for _, n := range all {
		switch {
		case n.writesRoles() && g.Escalate:
			n.verb, n.use.purpose = "escalate", "any rules in roles"
			more = append(more, n)
		case n.writesBindings():
			more = append(more, g.bindPermissions(n)...)
		}
	}
	return more
}

// bindPermissions returns what it takes to write bindings to roles.
func (g *Grant) bindPermissions(n permission) Permissions {
	var more Permissions
	for _, ref := range g.Bind {
		n.verb, n.name, n.use.purpose = "bind", ref.Name, "bindings"
		if n.resource = clusterRoleResource; ref.Kind == roleResource.Kind {
			n.resource = roleResource
		}
		more = append(more, n)
	}
	return more
}

// caveats are comments on what the roles may lack.
func (g *Grant) caveats(all Permissions) []string {
	var lines []string
	if some, found := all.controllersWith(permission.writesBindings); found && len(g.Bind)+len(g.Extra) == 0 {
		lines = append(lines, some+"RoleBindings are written. The API server refuses those to roles with more rights than these:",
			"name the roles with --bind clusterrole/NAME, or add their rules with --extra-rules FILE.")
	}
	if some, found := all.controllersWith(permission.writesRoles); found && len(g.Extra) == 0 && !g.Escalate {
		lines = append(lines, some+"Roles are written. The API server refuses rules that are not among these: add them with",
			"--extra-rules FILE. --escalate allows all rules, which equals cluster-admin.")
	}
	return lines
}

// controllersWith returns the names of the controllers with such a permission, as the start of a
// line, and whether there is any.
func (p Permissions) controllersWith(such func(permission) bool) (names string, found bool) {
	var all []string
	for _, n := range p {
		if !such(n) {
			continue
		}
		found = true
		if name := n.use.controller; name != "" && !slices.Contains(all, name+": ") {
			all = append(all, name+": ")
		}
	}
	slices.Sort(all)
	return strings.Join(all, ""), found
}
