package rbac

import (
	"bytes"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
	yamlnode "go.yaml.in/yaml/v3"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Role is a Role, or a ClusterRole if its Namespace is empty, with its bindings.
type Role struct {
	NamespaceRules

	Name   string
	Labels map[string]string
	// Comments are lines above the role.
	Comments []string
	// Subject gets the role, where the role is. There is no binding of the zero Subject.
	Subject rbac.Subject
}

// Roles returns a role for each namespace.
func Roles(name string, subject rbac.Subject, all []NamespaceRules) []Role {
	return lists.Map(all, func(one NamespaceRules) Role { return Role{NamespaceRules: one, Name: name, Subject: subject} })
}

// YAML returns roles and bindings as documents, with each rule in one line below its comment.
func YAML(roles []Role) ([]byte, error) {
	var documents [][]byte
	for i := range roles {
		role := &roles[i]
		text, err := role.yaml()
		if err != nil {
			return nil, err
		}
		documents = append(documents, text)
		for _, binding := range role.bindings() {
			text, err := document(binding, nil, nil)
			if err != nil {
				return nil, err
			}
			documents = append(documents, text)
		}
	}
	return bytes.Join(documents, []byte("---\n")), nil
}

// Objects returns roles and bindings without comments.
func Objects(roles []Role) []any {
	var all []any
	for i := range roles {
		all = append(all, roles[i].object())
		for _, binding := range roles[i].bindings() {
			all = append(all, binding)
		}
	}
	return all
}

func (r *Role) kind() string {
	if r.Namespace == "" {
		return "ClusterRole"
	}
	return "Role"
}

// object returns the role. Roles and ClusterRoles have the same fields.
func (r *Role) object() rbac.Role {
	role := rbac.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbac.SchemeGroupVersion.String(), Kind: r.kind()},
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, Labels: r.Labels},
	}
	for _, rule := range r.Rules {
		role.Rules = append(role.Rules, rule.PolicyRule)
	}
	return role
}

// bindings returns the binding of a role, if it has a subject. RoleBindings and ClusterRoleBindings have the same
// fields.
func (r *Role) bindings() []rbac.RoleBinding {
	if r.Subject == (rbac.Subject{}) {
		return nil
	}
	return []rbac.RoleBinding{{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbac.SchemeGroupVersion.String(), Kind: r.kind() + "Binding"},
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: r.kind(), Name: r.Name},
		Subjects:   []rbac.Subject{r.Subject},
	}}
}

func (r *Role) yaml() ([]byte, error) {
	comments := lists.Map(r.Rules, func(rule Rule) string { return rule.Comment })
	return document(r.object(), r.Comments, comments)
}

// document returns an object as YAML. Its rules, each with a comment, and its subjects have one line each.
func document(object any, head, comments []string) ([]byte, error) {
	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, err
	}
	var parsed yamlnode.Node
	if err := yamlnode.Unmarshal(text, &parsed); err != nil {
		return nil, err
	}
	root := parsed.Content[0]
	root.HeadComment = strings.Join(head, "\n")
	for i := 0; i < len(root.Content); i += 2 {
		name, value := root.Content[i].Value, root.Content[i+1]
		if value.Kind != yamlnode.SequenceNode {
			continue
		}
		for j, item := range value.Content {
			item.Style = yamlnode.FlowStyle
			if name == "rules" {
				item.HeadComment = comments[j]
			}
		}
	}
	var out bytes.Buffer
	encoder := yamlnode.NewEncoder(&out)
	encoder.SetIndent(2)
	err = encoder.Encode(root)
	return out.Bytes(), err
}
