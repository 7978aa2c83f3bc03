package setpoint

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// Requires declares permissions beyond those that follow from what the handlers and
// functions declare, such as those that a Role which the program creates gives to others:
// the API server lets a program grant only what it has itself. `rbac` prints them in the
// ClusterRole.
func (a *App) Requires(rules ...rbacv1.PolicyRule) { a.required = append(a.required, rules...) }

// Binds declares which roles the RoleBindings and ClusterRoleBindings that the program
// writes may refer to: kind is "Role" or "ClusterRole", and without names they may refer to
// any of it, which is as much as to be allowed everything. `rbac` prints the permission to
// bind them: where the program is limited to namespaces and writes no ClusterRoleBindings,
// in these alone.
func (a *App) Binds(kind string, names ...string) {
	plural := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[kind]
	switch {
	case plural == "":
		a.addProblem("Binds(%q): the kind is Role or ClusterRole", kind)
	case slices.Contains(names, ""):
		a.addProblem("Binds(%q): a name is empty", kind)
	}
	a.bound = append(a.bound, rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{plural}, Verbs: []string{"bind"}, ResourceNames: names,
	})
}

// addRequired are the grants with what Requires and Binds declare.
func (a *App) addRequired(grants []manager.NamespaceRules, namespaces []string) []manager.NamespaceRules {
	grants = addRules(grants, "", a.required)
	if len(namespaces) == 0 || a.writesRBAC("ClusterRoleBinding") {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		grants = addRules(grants, namespace, a.bound)
	}
	return grants
}

// addRules are the grants with rules in one namespace.
func addRules(grants []manager.NamespaceRules, namespace string, rules []rbacv1.PolicyRule) []manager.NamespaceRules {
	if len(rules) == 0 {
		return grants
	}
	for i := range grants {
		if grants[i].Namespace == namespace {
			grants[i].Rules = append(slices.Clip(grants[i].Rules), rules...)
			return grants
		}
	}
	grants = append(grants, manager.NamespaceRules{Namespace: namespace, Rules: rules})
	slices.SortStableFunc(grants, func(a, b manager.NamespaceRules) int { return strings.Compare(a.Namespace, b.Namespace) })
	return grants
}

// writesRBAC says whether one of these kinds of the RBAC group is written.
func (a *App) writesRBAC(kinds ...string) bool {
	for _, p := range a.registrations {
		c := p.controller()
		for _, k := range slices.Concat(c.owns, c.applies) {
			if k.group().Group == rbacv1.GroupName && slices.Contains(kinds, k.kind) {
				return true
			}
		}
	}
	return false
}

// caveats are comments on what the manifests cannot know: the API server refuses a
// RoleBinding, or a Role, of a program that does not have what these give to others.
func (a *App) caveats() string {
	var all []string
	if a.writesRBAC("RoleBinding", "ClusterRoleBinding") && len(a.bound)+len(a.required) == 0 {
		all = append(all, "The program writes RoleBindings. The API server refuses those of roles that it may not bind:",
			`name them with app.Binds("ClusterRole", "view"), or add the rules of the roles with app.Requires.`)
	}
	if a.writesRBAC("Role", "ClusterRole") && len(a.required) == 0 {
		all = append(all, "The program writes Roles. The API server refuses rules that it does not have itself:",
			"add them with app.Requires.")
	}
	var text strings.Builder
	for _, line := range all {
		fmt.Fprintf(&text, "# %s\n", line)
	}
	return text.String()
}
