package setpoint

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
)

// Requires declares permissions in addition to those of the handlers and functions, such
// as those that a Role created by the program grants: the API server lets a program grant
// only permissions that it has. `rbac` prints them in the ClusterRole.
func (a *App) Requires(rules ...rbacv1.PolicyRule) { a.required = append(a.required, rules...) }

// Binds declares the roles that RoleBindings and ClusterRoleBindings of the program may
// refer to. Kind is "Role" or "ClusterRole"; without names they may refer to any, which
// equals all permissions. `rbac` prints the permission to bind them, in the namespaces of
// the app if it is limited to namespaces and writes no ClusterRoleBindings.
func (a *App) Binds(kind string, names ...string) {
	plural := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[kind]
	switch {
	case plural == "":
		a.addProblem("Binds(%q): the kind must be Role or ClusterRole", kind)
	case slices.Contains(names, ""):
		a.addProblem("Binds(%q): a name is empty", kind)
	}
	a.bound = append(a.bound, rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{plural}, Verbs: []string{"bind"}, ResourceNames: names,
	})
}

// addRequired adds the permissions of Requires and Binds.
func (a *App) addRequired(grants []rbac.NamespaceRules, namespaces []string) []rbac.NamespaceRules {
	grants = rbac.AddRules(grants, "", declared(a.required)...)
	if len(namespaces) == 0 || a.writesRBAC("ClusterRoleBinding") {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		grants = rbac.AddRules(grants, namespace, declared(a.bound)...)
	}
	return grants
}

// declared returns rules of Requires and Binds.
func declared(rules []rbacv1.PolicyRule) []rbac.Rule {
	var all []rbac.Rule
	for _, rule := range rules {
		all = append(all, rbac.Rule{PolicyRule: rule, Comment: "declared by the program"})
	}
	return all
}

// writesRBAC reports whether the app writes one of these kinds of RBAC.
func (a *App) writesRBAC(kinds ...string) bool {
	for _, c := range a.controllers {
		for _, k := range slices.Concat(c.owns, c.applies) {
			if k.group().Group == rbacv1.GroupName && slices.Contains(kinds, k.kind) {
				return true
			}
		}
	}
	return false
}

// caveats are comments on permissions that the manifests may lack: the API server refuses
// a Role or RoleBinding that grants more than the program has.
func (a *App) caveats() string {
	var all []string
	if a.writesRBAC("RoleBinding", "ClusterRoleBinding") && len(a.bound)+len(a.required) == 0 {
		all = append(all, "The program writes RoleBindings. The API server refuses roles that it may not bind:",
			`name them with app.Binds("ClusterRole", "view"), or add the rules of the roles with app.Requires.`)
	}
	if a.writesRBAC("Role", "ClusterRole") && len(a.required) == 0 {
		all = append(all, "The program writes Roles. The API server refuses rules that the program does not have:",
			"add them with app.Requires.")
	}
	var text strings.Builder
	for _, line := range all {
		fmt.Fprintf(&text, "# %s\n", line)
	}
	return text.String()
}
