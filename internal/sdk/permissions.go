package sdk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
)

// RBAC returns the permissions that the app needs with these options as YAML manifests.
func (a *App) RBAC(ctx context.Context, serviceAccount string, o Options) ([]byte, error) {
	o.Namespace = cmp.Or(o.Namespace, "default")
	env, err := a.OfflineEnvironment(o)
	if err != nil {
		return nil, err
	}
	all, err := a.CompileAll(ctx, env)
	if err != nil {
		return nil, err
	}
	managed := a.complete(o.Options, true)
	managed.InspectAddress = manager.Cluster{InCluster: true}.InspectAddress(o.InspectAddress)
	text, err := manager.ProgramManifests(all, managed, serviceAccount, func(rules []rbac.NamespaceRules) []rbac.NamespaceRules {
		return a.addRequired(rules, o.Namespaces)
	})
	return append([]byte(a.caveats()), text...), err
}

// Requires declares permissions in addition to those of the functions.
func (a *App) Requires(rules ...rbacv1.PolicyRule) { a.required = append(a.required, rules...) }

// Binds declares the roles that bindings of the program may refer to; without names any.
func (a *App) Binds(kind string, names ...string) {
	plural := map[string]string{"Role": "roles", "ClusterRole": "clusterroles"}[kind]
	a.when(plural == "", "Binds(%q): the kind must be Role or ClusterRole", kind)
	a.when(plural != "" && slices.Contains(names, ""), "Binds(%q): a name is empty", kind)
	a.bound = append(a.bound, rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{plural}, Verbs: []string{"bind"}, ResourceNames: names,
	})
}

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

func declared(rules []rbacv1.PolicyRule) []rbac.Rule {
	return lists.Map(rules, func(rule rbacv1.PolicyRule) rbac.Rule {
		return rbac.Rule{PolicyRule: rule, Comment: "declared by the program"}
	})
}

// writesRBAC reports whether the app writes one of these kinds of RBAC.
func (a *App) writesRBAC(kinds ...string) bool {
	for _, c := range a.controllers {
		for _, k := range slices.Concat(c.owns, c.applies) {
			if k.Group().Group == rbacv1.GroupName && slices.Contains(kinds, k.Name) {
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
