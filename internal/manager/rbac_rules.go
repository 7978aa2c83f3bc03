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
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// NamespaceRules are the rules a program needs in one namespace, or in all of them and for
// cluster-scoped resources if Namespace is empty.
type NamespaceRules struct {
	Namespace string
	Rules     []rbac.PolicyRule
}

// RequiredRules returns the rules that a Go program needs to run these controllers with these
// options, sorted by namespace. It omits what every authenticated user may do (discovery and
// access reviews), and kinds of a customize hook that are not among the Reads.
func RequiredRules(all []*compile.Compiled, o Options) ([]NamespaceRules, error) {
	required, err := requiredPermissions(all, o)
	if err != nil {
		return nil, err
	}
	return rulesByNamespace(required), nil
}

// rulesByNamespace groups permissions by namespace.
func rulesByNamespace(required []permission) []NamespaceRules {
	everywhere := slices.DeleteFunc(slices.Clone(required), func(n permission) bool { return n.namespace != "" })
	byNamespace := map[string][]permission{"": everywhere}
	for _, n := range required {
		// Omit what is allowed in all namespaces.
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

// RequiredClusterRules returns the required rules for one ClusterRole.
func RequiredClusterRules(all []*compile.Compiled, o Options) ([]rbac.PolicyRule, error) {
	required, err := requiredPermissions(all, o)
	return policyRules(required), err
}

// requiredPermissions returns all permissions that a Go program needs.
func requiredPermissions(all []*compile.Compiled, o Options) ([]permission, error) {
	o = o.withDefaults()
	installed, err := crds.Parse(o.CRDs, o.AllowBreakingCRDs)
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
				required = append(required, forName(crds.NameOf(resource), permissionsFor(crds.Resource, "get", "list", "watch"))...)
			}
		}
	}
	for _, name := range crds.Names(installed) {
		required = append(required, forName(name, permissionsFor(crds.Resource, "get", "list", "watch", "create", "patch"))...)
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

// ownerReferencePermissions returns the permissions for owner references with
// blockOwnerDeletion. They are needed only with the admission plugin
// OwnerReferencesPermissionEnforcement, so no controller is refused without them.
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

// eventPermissions returns the permissions for events on the objects of a controller. Events
// on cluster-scoped objects are in the default namespace.
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
		// A review may record events on any object.
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

// ruleKey groups verbs into a PolicyRule.
type ruleKey struct {
	group, resource string
	// names are resource names, one per line; "" for all.
	names string
}

// policyRules returns the fewest equivalent rules, sorted. It ignores namespaces.
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

// resourceNames returns the names of the objects that a permission is needed for; "" if it is
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
