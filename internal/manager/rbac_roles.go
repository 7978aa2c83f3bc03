package manager

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/manager/request"
)

// missingAccessError names missing permissions in its first line. The roles that grant them
// follow, so that all but the first line can be piped to kubectl.
func (m *Manager) missingAccessError(ctx context.Context, controller string, missing []permission) error {
	user := m.username(ctx)
	as := ""
	if user != "" {
		as = " as " + user
	}
	roles, err := RBACManifests("setpoint-grant-"+controller, subjectOf(user), rulesByNamespace(missing))
	if err != nil {
		return err
	}
	return fmt.Errorf("Setpoint%s may not %s; the controller starts when this is granted\n"+
		"# To grant it: kubectl apply -f -\n%s", as, summary(missing), bytes.TrimSpace(roles))
}

// summary lists the verbs by resource.
func summary(missing []permission) string {
	var order []string
	verbsOf := map[string][]string{}
	for _, n := range missing {
		object := n.target()
		if verbsOf[object] == nil {
			order = append(order, object)
		}
		verbsOf[object] = append(verbsOf[object], n.verb)
	}
	parts := make([]string, len(order))
	for i, object := range order {
		parts[i] = strings.Join(sortVerbs(verbsOf[object]), ", ") + " " + object
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// username returns the user of the client; "" if the API server does not say.
func (m *Manager) username(ctx context.Context) string {
	review := authentication.SelfSubjectReview{}
	review.APIVersion, review.Kind = authentication.SchemeGroupVersion.String(), "SelfSubjectReview"
	body, err := json.Marshal(review)
	if err != nil {
		return ""
	}
	response, err := request.Do(ctx, m.client.Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").
		SetHeader("Content-Type", "application/json").Body(body))
	if err != nil || json.Unmarshal(response, &review) != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// subjectOf returns the subject of a role binding, with a placeholder for an unknown user.
func subjectOf(user string) rbac.Subject {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		return rbac.Subject{Kind: rbac.ServiceAccountKind, Name: name, Namespace: namespace}
	}
	return rbac.Subject{Kind: rbac.UserKind, APIGroup: rbac.GroupName, Name: cmp.Or(user, "USER")}
}

// RBACManifests returns roles and their bindings as YAML documents: a Role in each
// namespace, a ClusterRole for all namespaces.
func RBACManifests(name string, subject rbac.Subject, namespaceRules []NamespaceRules) ([]byte, error) {
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
