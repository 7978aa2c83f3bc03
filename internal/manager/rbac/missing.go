package rbac

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// missingError names missing permissions in its first line. The roles that grant them follow,
// so that all but the first line can be piped to kubectl.
func missingError(controller, user string, missing Permissions) error {
	as := ""
	if user != "" {
		as = " as " + user
	}
	roles, err := Manifests("setpoint-grant-"+controller, subjectOf(user), missing.RulesByNamespace())
	if err != nil {
		return err
	}
	return fmt.Errorf("Setpoint%s may not %s; the controller starts when this is granted\n"+
		"# To grant it: kubectl apply -f -\n%s", as, summary(missing), bytes.TrimSpace(roles))
}

// summary lists the verbs by resource.
func summary(missing Permissions) string {
	verbsOf := map[string][]string{}
	for _, n := range missing {
		verbsOf[n.target()] = append(verbsOf[n.target()], n.verb)
	}
	var parts []string
	for target, verbs := range verbsOf {
		parts = append(parts, strings.Join(sortVerbs(verbs), ", ")+" "+target)
	}
	return strings.Join(slices.Sorted(slices.Values(parts)), "; ")
}

// subjectOf returns the subject of a role binding, with a placeholder for an unknown user.
func subjectOf(user string) rbac.Subject {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		return rbac.Subject{Kind: rbac.ServiceAccountKind, Name: name, Namespace: namespace}
	}
	return rbac.Subject{Kind: rbac.UserKind, APIGroup: rbac.GroupName, Name: cmp.Or(user, "USER")}
}

// Manifests returns roles and their bindings as YAML documents: a Role in each namespace, a
// ClusterRole for all namespaces.
func Manifests(name string, subject rbac.Subject, namespaceRules []NamespaceRules) ([]byte, error) {
	var texts [][]byte
	for _, namespaceRule := range namespaceRules {
		for _, manifest := range roleManifests(name, subject, namespaceRule) {
			text, err := yaml.Marshal(manifest)
			if err != nil {
				return nil, err
			}
			texts = append(texts, text)
		}
	}
	return bytes.Join(texts, []byte("---\n")), nil
}

func roleManifests(name string, subject rbac.Subject, namespaceRule NamespaceRules) []any {
	role, binding := "Role", "RoleBinding"
	if namespaceRule.Namespace == "" {
		role, binding = "ClusterRole", "ClusterRoleBinding"
	}
	typed := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbac.SchemeGroupVersion.String(), Kind: kind}
	}
	meta := metav1.ObjectMeta{Name: name, Namespace: namespaceRule.Namespace}
	// Roles and ClusterRoles have the same fields.
	return []any{
		rbac.Role{TypeMeta: typed(role), ObjectMeta: meta, Rules: namespaceRule.Rules},
		rbac.RoleBinding{
			TypeMeta: typed(binding), ObjectMeta: meta, Subjects: []rbac.Subject{subject},
			RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: role, Name: name},
		},
	}
}
