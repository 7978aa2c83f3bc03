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
)

// missingAccessError is the error of permissions that are missing: first a line that names them,
// then the roles that grant them, as manifests to be applied. As it begins each further
// line that is no YAML with #, all but the first line can be piped to kubectl.
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
	return fmt.Errorf("Setpoint%s may not %s; the controller starts by itself when it may\n"+
		"# To grant it: kubectl apply -f -\n%s", as, summary(missing), bytes.TrimSpace(roles))
}

// summary names the verbs by resource.
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

// username is who the program is to the API server; "" where that does not say.
func (m *Manager) username(ctx context.Context) string {
	review := authentication.SelfSubjectReview{}
	review.APIVersion, review.Kind = authentication.SchemeGroupVersion.String(), "SelfSubjectReview"
	body, err := json.Marshal(review)
	if err != nil {
		return ""
	}
	response, err := doRequest(ctx, m.client.Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").
		SetHeader("Content-Type", "application/json").Body(body))
	if err != nil || json.Unmarshal(response, &review) != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// subjectOf is who a role is bound to. Where the user is not known, the reader fills it in.
func subjectOf(user string) rbac.Subject {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		return rbac.Subject{Kind: rbac.ServiceAccountKind, Name: name, Namespace: namespace}
	}
	return rbac.Subject{Kind: rbac.UserKind, APIGroup: rbac.GroupName, Name: cmp.Or(user, "USER")}
}

// RBACManifests are roles with these rules and their bindings to a subject, as YAML
// documents: a Role in each namespace, a ClusterRole for what is allowed everywhere.
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
	// The kinds with and without a namespace have the same fields.
	return []any{
		rbac.Role{TypeMeta: typed(role), ObjectMeta: meta, Rules: namespaceRule.Rules},
		rbac.RoleBinding{
			TypeMeta: typed(binding), ObjectMeta: meta, Subjects: []rbac.Subject{subject},
			RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: role, Name: name},
		},
	}
}
