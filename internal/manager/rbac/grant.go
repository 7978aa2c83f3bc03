package rbac

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// AggregateLabel adds a ClusterRole to that of the ServiceAccount of the install manifests.
const AggregateLabel = "rbac.setpoint.dev/aggregate-to-setpoint"

// Grant says how to grant what controllers need.
type Grant struct {
	Controllers []Controller
	// Name is the name of the roles.
	Name string
	// Process is the ServiceAccount of Setpoint. With Aggregate its ClusterRole collects others
	// by AggregateLabel, and needs no binding to them.
	Process   identity.Account
	Aggregate bool
	// Constrained limits impersonation to what the controllers do.
	Constrained bool
	// Comments are lines above the first role.
	Comments []string
}

// caveat is a comment on controllers that write RBAC.
const caveat = "Roles or bindings are written. The API server refuses those that grant more than these rules: grant their\n" +
	"rules, or the verbs bind or escalate, with a role of your own."

// Roles returns the roles: first those of the process, then those of identities, by name.
func (g *Grant) Roles() []Role {
	controllers, comments := g.Controllers, slices.Clone(g.Comments)
	if len(controllers) == 1 { // It is named once, and not in each comment.
		one := controllers[0]
		comments = slices.Insert(comments, 0, "What "+one.Name+" needs.")
		controllers = []Controller{{Identity: one.Identity, Permissions: slices.Clone(one.Permissions).by("")}}
	}
	var process Permissions
	identities := map[identity.Account]Permissions{}
	for _, c := range controllers {
		process = slices.Concat(process, c.Permissions.Of(Own), c.Permissions.Impersonation(c.Identity, g.Constrained).by(c.Name))
		if c.Identity.Name != "" {
			identities[c.Identity] = append(identities[c.Identity], c.Permissions.Of(Identity)...)
		}
		writesRBAC := func(n permission) bool { return n.verb == "create" && n.resource.Group == rbac.GroupName }
		if slices.ContainsFunc(c.Permissions, writesRBAC) && !slices.Contains(comments, caveat) {
			comments = append(comments, caveat)
		}
	}
	roles := g.processRoles(process.RulesByNamespace())
	for _, account := range slices.SortedFunc(maps.Keys(identities), compareNames) {
		roles = append(roles, g.identityRoles(account, identities[account].RulesByNamespace())...)
	}
	return withComments(roles, comments)
}

func compareNames(a, b identity.Account) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// withComments adds lines above the first role.
func withComments(roles []Role, lines []string) []Role {
	if len(roles) > 0 {
		roles[0].Comments = slices.Concat(lines, roles[0].Comments)
	}
	return roles
}

// processRoles returns the roles of Setpoint's own ServiceAccount.
func (g *Grant) processRoles(rules []NamespaceRules) []Role {
	roles := Roles(g.Name, subjectOfAccount(g.Process), rules)
	for i := range roles {
		if roles[i].Namespace == "" && g.Aggregate {
			roles[i].Subject, roles[i].Labels = rbac.Subject{}, map[string]string{AggregateLabel: "true"}
		}
	}
	return roles
}

// identityRoles returns the roles of an identity. One of each namespace is bound where the roles
// are; its ClusterRole is bound by those who set up a namespace.
func (g *Grant) identityRoles(account identity.Account, rules []NamespaceRules) []Role {
	if account.Namespace != "" {
		roles := Roles(g.Name+":"+account.Namespace+":"+account.Name, subjectOfAccount(account), rules)
		return withComments(roles, []string{fmt.Sprintf("For the ServiceAccount %s.", account)})
	}
	roles := Roles(g.Name+":"+account.Name, rbac.Subject{}, rules)
	for i := range roles {
		if namespace := roles[i].Namespace; namespace != "" {
			roles[i].Subject = subjectOfAccount(identity.Account{Namespace: namespace, Name: account.Name})
			continue
		}
		roles[i].Comments = []string{
			fmt.Sprintf("For the ServiceAccount %s of each namespace. Bind it in each:", account.Name),
			fmt.Sprintf("kubectl -n NAMESPACE create rolebinding %s --clusterrole=%s --serviceaccount=NAMESPACE:%[1]s",
				account.Name, roles[i].Name),
		}
	}
	return roles
}

func subjectOfAccount(account identity.Account) rbac.Subject {
	return rbac.Subject{Kind: rbac.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}
}

// subjectOf returns the subject of a role binding, with a placeholder for an unknown user.
func subjectOf(user string) rbac.Subject {
	if strings.HasPrefix(user, identity.UserPrefix) {
		return subjectOfAccount(identity.OfUser(user))
	}
	return rbac.Subject{Kind: rbac.UserKind, APIGroup: rbac.GroupName, Name: cmp.Or(user, "USER")}
}

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
		all = append(all, roles[i].manifest())
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

// manifest returns the role. Roles and ClusterRoles have the same fields.
func (r *Role) manifest() rbac.Role {
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
	return document(r.manifest(), r.Comments, comments)
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
