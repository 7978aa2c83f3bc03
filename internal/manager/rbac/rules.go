package rbac

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// NamespaceRules are the rules a program needs in one namespace, or in all of them and for
// cluster-scoped resources if Namespace is empty.
type NamespaceRules struct {
	Namespace string
	Rules     []rbac.PolicyRule
}

// Required returns the permissions that a Go program needs to run these controllers. It omits
// what every authenticated user may do (discovery and access reviews), and kinds of a
// customize hook that are not among the Reads.
func (o *Process) Required(all []*compile.Compiled) Permissions {
	var required Permissions
	for _, c := range all {
		required = append(append(required, o.ForController(object.Resource{}, c)...), o.optionalPermissions(c)...)
	}
	for _, name := range crds.Names(o.CRDs) {
		required = append(required, on(crds.Resource, "get", "list", "watch", "create", "patch").named(name)...)
	}
	if o.InspectSecret != "" {
		// Without create, which could not be limited to one name.
		required = append(required, on(object.Secrets, "get", "update").in(o.Namespace).named(o.InspectSecret)...)
	}
	if e := o.LeaderElection; e.Enabled {
		required = append(required, on(object.Leases, "create").in(e.Namespace)...)
		required = append(required, on(object.Leases, "get", "update").in(e.Namespace).named(e.Name)...)
	}
	return required.unique()
}

// eventsOn returns the permissions for events on objects. Those on cluster-scoped objects are
// in the default namespace.
func eventsOn(resource object.Resource, namespaces ...string) Permissions {
	if !resource.Namespaced {
		namespaces = []string{metav1.NamespaceDefault}
	}
	return on(object.Events, "create", "patch").in(namespaces...)
}

// crdPermissions returns the permissions to read the CRD of a kind.
func crdPermissions(resource object.Resource) Permissions {
	return on(crds.Resource, "get", "list", "watch").named(crds.NameOf(resource))
}

// RulesByNamespace groups permissions by namespace, sorted.
func (p Permissions) RulesByNamespace() []NamespaceRules {
	everywhere := slices.DeleteFunc(slices.Clone(p), func(n permission) bool { return n.namespace != "" })
	byNamespace := map[string]Permissions{"": everywhere}
	for _, n := range p {
		// Omit what is allowed in all namespaces.
		spread := n
		spread.namespace = ""
		if n.namespace != "" && !slices.Contains(everywhere, spread) {
			byNamespace[n.namespace] = append(byNamespace[n.namespace], n)
		}
	}
	var all []NamespaceRules
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		if rules := policyRules(byNamespace[namespace]); len(rules) > 0 {
			all = append(all, NamespaceRules{namespace, rules})
		}
	}
	return all
}

// ruleKey groups verbs into a PolicyRule.
type ruleKey struct {
	group, resource string
	// names are resource names, one per line; "" for all.
	names string
}

// policyRules returns the fewest equivalent rules, sorted. It ignores namespaces.
func policyRules(required Permissions) []rbac.PolicyRule {
	verbsOf := map[ruleKey][]string{}
	for _, n := range required {
		one := ruleKey{group: n.resource.Group, resource: n.resource.Plural, names: resourceNames(n, required)}
		if n.subresource != "" {
			one.resource += "/" + n.subresource
		}
		if !slices.Contains(verbsOf[one], n.verb) {
			verbsOf[one] = append(verbsOf[one], n.verb)
		}
	}
	var rules []rbac.PolicyRule
	for _, one := range slices.SortedFunc(maps.Keys(verbsOf), compareRules) {
		rules = mergeRule(rules, one, sortVerbs(verbsOf[one]))
	}
	return rules
}

// resourceNames returns the names of the objects that a permission is needed for; "" if it is
// needed for all objects.
func resourceNames(n permission, required Permissions) string {
	var all []string
	for _, other := range required {
		if other.verb != n.verb || other.subresource != n.subresource || other.resource.Group != n.resource.Group || other.resource.Plural != n.resource.Plural {
			continue
		}
		if other.name == "" {
			return ""
		}
		all = append(all, other.name)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

func compareRules(a, b ruleKey) int {
	return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.names, b.names), cmp.Compare(a.resource, b.resource))
}

// sortVerbs sorts verbs in the usual order.
func sortVerbs(some []string) []string {
	order := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	slices.SortFunc(some, func(a, b string) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
	return some
}

// mergeRule appends a rule, or adds its resource to a rule with the same verbs and names.
func mergeRule(rules []rbac.PolicyRule, one ruleKey, verbs []string) []rbac.PolicyRule {
	next := rbac.PolicyRule{APIGroups: []string{one.group}, Resources: []string{one.resource}, Verbs: verbs}
	if one.names != "" {
		next.ResourceNames = strings.Split(one.names, "\n")
	}
	i := slices.IndexFunc(rules, func(r rbac.PolicyRule) bool {
		return r.APIGroups[0] == one.group && slices.Equal(r.Verbs, verbs) && slices.Equal(r.ResourceNames, next.ResourceNames)
	})
	if i < 0 {
		return append(rules, next)
	}
	rules[i].Resources = append(rules[i].Resources, one.resource)
	return rules
}
