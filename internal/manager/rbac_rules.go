package manager

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// NamespaceRules is what a program has to be allowed in one namespace; in all of them, and
// of what lives in none, if Namespace is empty.
type NamespaceRules struct {
	Namespace string
	Rules     []rbac.PolicyRule
}

// RequiredRules are the permissions that a Go program takes to run these controllers of
// its own with these options, no more and no less, in the order of namespaces. What
// every program may do that has proved its identity, to discover kinds and to ask
// for its permissions, is not among them; nor are kinds that a customize hook names
// although they are not among the Reads.
func RequiredRules(all []*compile.Compiled, o Options) ([]NamespaceRules, error) {
	required, err := requiredPermissions(all, o)
	if err != nil {
		return nil, err
	}
	return rulesByNamespace(required), nil
}

// rulesByNamespace sorts permissions by namespace.
func rulesByNamespace(required []permission) []NamespaceRules {
	everywhere := slices.DeleteFunc(slices.Clone(required), func(n permission) bool { return n.namespace != "" })
	byNamespace := map[string][]permission{"": everywhere}
	for _, n := range required {
		// What is allowed everywhere need not be allowed here once more.
		spread := n
		spread.namespace = ""
		if n.namespace != "" && !slices.Contains(everywhere, spread) {
			byNamespace[n.namespace] = append(byNamespace[n.namespace], n)
		}
	}
	var namespaceRules []NamespaceRules
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		if rules := policyRules(byNamespace[namespace]); len(rules) > 0 {
			namespaceRules = append(namespaceRules, NamespaceRules{namespace, rules})
		}
	}
	return namespaceRules
}

// RequiredClusterRules are the permissions of Grants in one, for a ClusterRole.
func RequiredClusterRules(all []*compile.Compiled, o Options) ([]rbac.PolicyRule, error) {
	required, err := requiredPermissions(all, o)
	return policyRules(required), err
}

// requiredPermissions are all permissions that a Go program takes.
func requiredPermissions(all []*compile.Compiled, o Options) ([]permission, error) {
	o = o.withDefaults()
	installed, err := parseCRDs(o.CRDs, o.AllowBreakingCRDs)
	if err != nil {
		return nil, err
	}
	var required []permission
	for _, c := range all {
		required = append(required, controllerPermissions(object.Resource{}, c, &o)...)
		required = append(required, eventPermissions(c)...)
		required = append(required, ownerReferencePermissions(c)...)
		required = append(required, ownNamespacePermissions(c, &o)...)
		for _, resource := range allKinds(c) {
			if resource.Custom {
				required = append(required, forName(crdNameOf(resource), permissionsFor(crdResource, "get", "list", "watch"))...)
			}
		}
	}
	for _, name := range crdNames(installed) {
		required = append(required, forName(name, permissionsFor(crdResource, "get", "list", "watch", "create", "patch"))...)
	}
	required = append(required, inspectPermissions(&o)...)
	if e := o.LeaderElection; e.Enabled {
		required = append(required, inNamespace(e.Namespace, permissionsFor(leaseResource, "create"))...)
		required = append(required, inNamespace(e.Namespace, forName(e.Name, permissionsFor(leaseResource, "get", "update")))...)
	}
	return uniquePermissions(required), nil
}

func forName(name string, all []permission) []permission {
	for i := range all {
		all[i].name = name
	}
	return all
}

// ownerReferencePermissions are for owner references that hold up the deletion of the owner: where
// the API server is told to mind (OwnerReferencesPermissionEnforcement), those alone
// may set them who could as well do so by a finalizer. Elsewhere nobody asks, and so
// it is granted, but no controller is refused for the want of it.
func ownerReferencePermissions(c *compile.Compiled) []permission {
	var all []permission
	for i := range c.Programs {
		if p := &c.Programs[i]; len(p.Children) > 0 {
			all = append(all, inNamespace(p.Namespace, []permission{{resource: p.Parent, subresource: "finalizers", verb: "update"}})...)
		}
	}
	for i := range c.Handlers {
		p := &c.Handlers[i]
		if len(p.Owns) == 0 && !slices.ContainsFunc(p.Writes, func(w handle.WritePermission) bool { return w.Apply }) {
			continue
		}
		for _, namespace := range handlerNamespaces(p) {
			all = append(all, inNamespace(namespace, []permission{{resource: p.Resource, subresource: "finalizers", verb: "update"}})...)
		}
	}
	return all
}

// eventPermissions are for the events at the objects of a controller. Those at what lives
// in no namespace are kept in the default one.
func eventPermissions(c *compile.Compiled) []permission {
	var all []permission
	at := func(resource object.Resource, namespaces ...string) {
		if !resource.Namespaced {
			namespaces = []string{metav1.NamespaceDefault}
		}
		for _, namespace := range namespaces {
			all = append(all, inNamespace(namespace, permissionsFor(eventResource, "create", "patch"))...)
		}
	}
	if c.Admission != nil {
		// A review tells of whatever has a say in it, wherever that is.
		all = append(all, permissionsFor(eventResource, "create", "patch")...)
	}
	for i := range c.Programs {
		at(c.Programs[i].Parent, c.Programs[i].Namespace)
	}
	for i := range c.Handlers {
		if p := &c.Handlers[i]; len(p.Handlers) > 0 {
			at(p.Resource, handlerNamespaces(p)...)
		}
	}
	return all
}

// ruleKey is a PolicyRule in the making: one that allows some verbs on one resource.
type ruleKey struct {
	group, resource string
	// names are of the only objects concerned, a line each; of all if empty.
	names string
}

// policyRules are the fewest rules that say the same, sorted. A namespace is not
// theirs to say.
func policyRules(required []permission) []rbac.PolicyRule {
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

// resourceNames are the names of all objects that something is needed for; none if it is
// needed for all objects.
func resourceNames(n permission, required []permission) string {
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

// sortVerbs puts verbs as people do: reading first.
func sortVerbs(some []string) []string {
	order := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	slices.SortFunc(some, func(a, b string) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
	return some
}

// mergeRule adds a rule, to one that is the same but for its resources if there is one.
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
