package host

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// Grant is what a program has to be allowed in one namespace; in all of them, and
// of what lives in none, if Namespace is empty.
type Grant struct {
	Namespace string
	Rules     []rbac.PolicyRule
}

// Grants are the permissions that a Go program takes to run these controllers of
// its own with these options, no more and no less, in the order of namespaces. What
// every program may do that has proved its identity, to discover kinds and to ask
// for its permissions, is not among them; nor are kinds that a customize hook names
// although they are not among the Reads.
func Grants(all []*compile.Compiled, o Options) ([]Grant, error) {
	taken, err := takes(all, o)
	if err != nil {
		return nil, err
	}
	return grantsOf(taken), nil
}

// grantsOf sorts permissions by namespace.
func grantsOf(taken []need) []Grant {
	everywhere := slices.DeleteFunc(slices.Clone(taken), func(n need) bool { return n.namespace != "" })
	byNamespace := map[string][]need{"": everywhere}
	for _, n := range taken {
		// What is allowed everywhere need not be allowed here once more.
		spread := n
		spread.namespace = ""
		if n.namespace != "" && !slices.Contains(everywhere, spread) {
			byNamespace[n.namespace] = append(byNamespace[n.namespace], n)
		}
	}
	var grants []Grant
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		if rules := rulesOf(byNamespace[namespace]); len(rules) > 0 {
			grants = append(grants, Grant{namespace, rules})
		}
	}
	return grants
}

// Rules are the permissions of Grants in one, for a ClusterRole.
func Rules(all []*compile.Compiled, o Options) ([]rbac.PolicyRule, error) {
	taken, err := takes(all, o)
	return rulesOf(taken), err
}

// takes are all permissions that a Go program takes.
func takes(all []*compile.Compiled, o Options) ([]need, error) {
	o = o.withDefaults()
	installed, err := readDefinitions(o.Definitions, o.BreakingDefinitions)
	if err != nil {
		return nil, err
	}
	var taken []need
	for _, c := range all {
		taken = append(taken, needs(object.Resource{}, c, &o)...)
		taken = append(taken, eventNeeds(c)...)
		taken = append(taken, ownerNeeds(c)...)
		taken = append(taken, needsOfHome(c, &o)...)
		for _, resource := range kindsOf(c) {
			if resource.Custom {
				taken = append(taken, named(definitionOf(resource), verbs(definitions, "get", "list", "watch"))...)
			}
		}
	}
	for _, name := range names(installed) {
		taken = append(taken, named(name, verbs(definitions, "get", "list", "watch", "create", "patch"))...)
	}
	taken = append(taken, needsOfInspection(&o)...)
	if e := o.LeaderElection; e.Enabled {
		taken = append(taken, in(e.Namespace, verbs(leases, "create"))...)
		taken = append(taken, in(e.Namespace, named(e.Name, verbs(leases, "get", "update")))...)
	}
	return once(taken), nil
}

func named(name string, all []need) []need {
	for i := range all {
		all[i].name = name
	}
	return all
}

// ownerNeeds are for owner references that hold up the deletion of the owner: where
// the API server is told to mind (OwnerReferencesPermissionEnforcement), those alone
// may set them who could as well do so by a finalizer. Elsewhere nobody asks, and so
// it is granted, but no controller is refused for the want of it.
func ownerNeeds(c *compile.Compiled) []need {
	var all []need
	for i := range c.Programs {
		if p := &c.Programs[i]; len(p.Children) > 0 {
			all = append(all, in(p.Namespace, []need{{resource: p.Parent, subresource: "finalizers", verb: "update"}})...)
		}
	}
	for i := range c.Reactions {
		p := &c.Reactions[i]
		if len(p.Owns) == 0 && !slices.ContainsFunc(p.Writes, func(w react.Write) bool { return w.Apply }) {
			continue
		}
		for _, namespace := range spaces(p) {
			all = append(all, in(namespace, []need{{resource: p.Resource, subresource: "finalizers", verb: "update"}})...)
		}
	}
	return all
}

// eventNeeds are for the events at the objects of a controller. Those at what lives
// in no namespace are kept in the default one.
func eventNeeds(c *compile.Compiled) []need {
	var all []need
	at := func(resource object.Resource, namespaces ...string) {
		if !resource.Namespaced {
			namespaces = []string{metav1.NamespaceDefault}
		}
		for _, namespace := range namespaces {
			all = append(all, in(namespace, verbs(eventResource, "create", "patch"))...)
		}
	}
	if c.Admission != nil {
		// A review tells of whatever has a say in it, wherever that is.
		all = append(all, verbs(eventResource, "create", "patch")...)
	}
	for i := range c.Programs {
		at(c.Programs[i].Parent, c.Programs[i].Namespace)
	}
	for i := range c.Reactions {
		if p := &c.Reactions[i]; len(p.Handlers) > 0 {
			at(p.Resource, spaces(p)...)
		}
	}
	return all
}

// rule is a PolicyRule in the making: one that allows some verbs on one resource.
type rule struct {
	group, resource string
	// names are of the only objects concerned, a line each; of all if empty.
	names string
}

// rulesOf are the fewest rules that say the same, sorted. A namespace is not
// theirs to say.
func rulesOf(taken []need) []rbac.PolicyRule {
	verbsOf := map[rule][]string{}
	for _, n := range taken {
		one := rule{group: n.resource.Group, resource: n.resource.Plural, names: namesFor(n, taken)}
		if n.subresource != "" {
			one.resource += "/" + n.subresource
		}
		if !slices.Contains(verbsOf[one], n.verb) {
			verbsOf[one] = append(verbsOf[one], n.verb)
		}
	}
	var rules []rbac.PolicyRule
	for _, one := range slices.SortedFunc(maps.Keys(verbsOf), compareRules) {
		rules = joined(rules, one, inOrder(verbsOf[one]))
	}
	return rules
}

// namesFor are the names of all objects that something is needed for; none if it is
// needed for all objects.
func namesFor(n need, taken []need) string {
	var all []string
	for _, other := range taken {
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

func compareRules(a, b rule) int {
	return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.names, b.names), cmp.Compare(a.resource, b.resource))
}

// inOrder puts verbs as people do: reading first.
func inOrder(some []string) []string {
	order := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	slices.SortFunc(some, func(a, b string) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
	return some
}

// joined adds a rule, to one that is the same but for its resources if there is one.
func joined(rules []rbac.PolicyRule, one rule, verbs []string) []rbac.PolicyRule {
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
