package rbac

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbac "k8s.io/api/rbac/v1"

	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// NamespaceRules are the rules a program needs in one namespace, or in all of them and for
// cluster-scoped resources if Namespace is empty.
type NamespaceRules struct {
	Namespace string
	Rules     []Rule
}

// Rule is a rule of a role, and what it is for: "teams: children; shops: parents".
type Rule struct {
	rbac.PolicyRule

	Comment string
}

// Required returns the permissions that a Go program needs to run these controllers. It omits what every authenticated
// user may do (discovery and access reviews), and kinds of a customize hook that are not among the Reads.
func (o *Process) Required(all []*compile.Compiled) Permissions {
	var required Permissions
	for _, c := range all {
		required = slices.Concat(required, o.needs(object.Resource{}, c), o.definitions(c))
	}
	for _, name := range crds.Names(o.CRDs) {
		required = append(required, on(crds.Resource, "get", "list", "watch", "create", "patch").named(name).to("CRDs")...)
	}
	if o.InspectSecret != "" {
		// Without create, which could not be limited to one name.
		required = append(required, on(object.Secrets, "get", "update").in(o.Namespace).named(o.InspectSecret).to("token of the inspect "+
			"endpoint")...)
	}
	if e := o.LeaderElection; e.Enabled {
		required = append(required, on(object.Leases, "create").in(e.Namespace).to("leader election")...)
		required = append(required, on(object.Leases, "get", "update").in(e.Namespace).named(e.Name).to("leader election")...)
	}
	return required.unique()
}

// ForRun returns the permissions that a process needs to run the controller objects of a cluster, whatever these are: those
// of the install manifests. The CRDs of controllers are installed already.
func (o *Process) ForRun() Permissions {
	all := on(crds.Resource, "get", "list", "watch").to("CRDs")
	for _, kind := range compile.Kinds() {
		all = append(all, on(kind.Resource, "get", "list", "watch", "patch").to("controllers")...)
		all = append(all, onPart(kind.Resource, "status", "patch").to("controllers")...)
	}
	return slices.Concat(all,
		on(object.Namespaces, "get", "list", "watch").to("namespaces"),
		on(object.Events, "create", "patch").to("events"),
		on(object.Leases, "get").to("other processes"),
		on(subjectAccessReviews, "create").to("ServiceAccounts of controllers"),
		ForWebhooks(register.Permissions(o.Namespace)).to("webhooks"),
		o.Required(nil)).unique()
}

// RulesByNamespace groups permissions by namespace, sorted. It ignores whose they are.
func (p Permissions) RulesByNamespace() []NamespaceRules {
	everywhere := map[permission]bool{}
	byNamespace := map[string]Permissions{}
	for _, n := range p {
		if n.namespace == "" {
			everywhere[n.grant()] = true
			byNamespace[""] = append(byNamespace[""], n)
		}
	}
	for _, n := range p {
		// Omit what is allowed in all namespaces.
		spread := n.grant()
		spread.namespace = ""
		if n.namespace != "" && !everywhere[spread] {
			byNamespace[n.namespace] = append(byNamespace[n.namespace], n)
		}
	}
	return lists.Map(lists.Keys(byNamespace), func(name string) NamespaceRules {
		return NamespaceRules{name, policyRules(byNamespace[name])}
	})
}

// AddRules adds rules in one namespace.
func AddRules(all []NamespaceRules, namespace string, rules ...Rule) []NamespaceRules {
	if len(rules) == 0 {
		return all
	}
	for i := range all {
		if all[i].Namespace == namespace {
			all[i].Rules = append(slices.Clip(all[i].Rules), rules...)
			return all
		}
	}
	all = append(all, NamespaceRules{namespace, rules})
	slices.SortStableFunc(all, func(a, b NamespaceRules) int { return strings.Compare(a.Namespace, b.Namespace) })
	return all
}

// ruleKey groups permissions into a rule.
type ruleKey struct {
	group, resource string
	// names are resource names, one per line; "" for all.
	names string
}

// policyRules returns the fewest equivalent rules, sorted. It ignores namespaces.
func policyRules(required Permissions) []Rule {
	grouped := map[ruleKey]Permissions{}
	for _, n := range required {
		one := ruleKey{group: n.resource.Group, resource: n.resource.Plural, names: resourceNames(n, required)}
		if n.subresource != "" {
			one.resource += "/" + n.subresource
		}
		grouped[one] = append(grouped[one], n)
	}
	inOrder := func(a, b ruleKey) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.names, b.names), cmp.Compare(a.resource, b.resource))
	}
	var rules []Rule
	var uses []Permissions
	for _, one := range slices.SortedFunc(maps.Keys(grouped), inOrder) {
		rule := rbac.PolicyRule{APIGroups: []string{one.group}, Verbs: grouped[one].sortedVerbs()}
		if one.names != "" {
			rule.ResourceNames = strings.Split(one.names, "\n")
		}
		i := slices.IndexFunc(rules, func(other Rule) bool {
			return slices.Equal(other.APIGroups, rule.APIGroups) && slices.Equal(other.Verbs, rule.Verbs) &&
				slices.Equal(other.ResourceNames, rule.ResourceNames)
		})
		if i < 0 {
			i, rules, uses = len(rules), append(rules, Rule{PolicyRule: rule}), append(uses, nil)
		}
		rules[i].Resources = append(rules[i].Resources, one.resource)
		uses[i] = append(uses[i], grouped[one]...)
	}
	for i := range rules {
		rules[i].Comment = uses[i].comment()
	}
	return rules
}

// sortedVerbs returns the verbs in the usual order, others after them.
func (p Permissions) sortedVerbs() []string {
	usual := []string{"delete", "patch", "update", "create", "watch", "list", "get"}
	all := lists.Union(nil, lists.Map(p, func(n permission) string { return n.verb }))
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(usual, b), slices.Index(usual, a)), cmp.Compare(a, b))
	})
	return all
}

// resourceNames returns the names of the objects that a permission is needed for; "" if it is needed for all objects.
func resourceNames(n permission, required Permissions) string {
	var all []string
	for _, other := range required {
		if other.verb != n.verb || other.subresource != n.subresource || other.resource.Group != n.resource.Group ||
			other.resource.Plural != n.resource.Plural {
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

// maxCommented is the number of controllers that a comment names.
const maxCommented = 4

// comment says which controllers need permissions for what: "shops: parents; teams: children, events".
func (p Permissions) comment() string {
	purposes := map[string][]string{}
	for _, n := range p {
		if n.use != (use{}) {
			purposes[n.use.controller] = lists.Union(purposes[n.use.controller], []string{n.use.purpose})
		}
	}
	controllers := slices.Sorted(maps.Keys(purposes))
	var parts []string
	for i, controller := range controllers {
		if i == maxCommented {
			parts = append(parts, fmt.Sprintf("and %d more", len(controllers)-i))
			break
		}
		slices.Sort(purposes[controller])
		part := strings.Join(purposes[controller], ", ")
		if controller != "" {
			part = controller + ": " + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// maxSummary is the number of resources that the first line names.
const maxSummary = 50

// Summary lists the verbs by resource, such as "get, list pods.v1 in shop".
func (p Permissions) Summary() string {
	targets := map[string]Permissions{}
	for _, n := range p {
		targets[n.target()] = append(targets[n.target()], n)
	}
	var parts []string
	for target, all := range targets {
		parts = append(parts, strings.Join(all.sortedVerbs(), ", ")+" "+target)
	}
	slices.Sort(parts)
	if more := len(parts) - maxSummary; more > 0 {
		parts = append(parts[:maxSummary], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
