package rbac

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	rbac "k8s.io/api/rbac/v1"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Granted are the rules of a role that is bound to a ServiceAccount.
type Granted struct {
	// Kind is "Role" or "ClusterRole".
	Kind, Name string
	Labels     map[string]string
	// Namespace is where the rules are granted; "" for all namespaces.
	Namespace string
	Rules     []rbac.PolicyRule
	// ReadsReviewed means that the account is an identity: that it may read what a hook gets is
	// reviewed, and no request. Its reads count as used.
	ReadsReviewed bool
}

// Usage is one granted verb, and when it was used last.
type Usage struct {
	Role      string `json:"role"`
	Namespace string `json:"namespace,omitempty"`
	Verb      string `json:"verb"`
	// Resource is such as "deployments.apps/status".
	Resource string `json:"resource"`
	// Names limit the rule. Requests are not counted by name: it is used if any of them is.
	Names []string  `json:"names,omitempty"`
	Last  time.Time `json:"lastUsed,omitzero"`
	// Reviewed is Granted.ReadsReviewed for a verb that reads.
	Reviewed bool `json:"reviewed,omitempty"`
}

// grantedVerb is one verb of a rule on one resource, each perhaps a wildcard.
type grantedVerb struct{ verb, group, resource string }

// withLists counts each watch as a list too: what watches lists if the API server cannot send the
// first objects with the watch, and after an outage.
func withLists(all []inspect.Request) []inspect.Request {
	lists := slices.DeleteFunc(slices.Clone(all), func(r inspect.Request) bool { return r.Verb != "watch" })
	for i := range lists {
		lists[i].Verb = "list"
	}
	return slices.Concat(all, lists)
}

// Used says when a user used each verb of its roles, sorted by role.
func Used(granted []Granted, all []inspect.Request) []Usage {
	all = withLists(all)
	var usages []Usage
	for _, g := range granted {
		for _, rule := range g.Rules {
			usages = append(usages, g.usages(rule, all)...)
		}
	}
	slices.SortStableFunc(usages, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource))
	})
	return slices.CompactFunc(usages, func(a, b Usage) bool {
		return a.Role == b.Role && a.Namespace == b.Namespace && a.Verb == b.Verb && a.Resource == b.Resource &&
			slices.Equal(a.Names, b.Names)
	})
}

// usages says when each verb of a rule was used.
func (g *Granted) usages(rule rbac.PolicyRule, all []inspect.Request) []Usage {
	var usages []Usage
	for _, one := range split(rule) {
		usage := Usage{
			Role: g.Name, Namespace: g.Namespace, Verb: one.verb, Resource: resourceName(one.group, one.resource),
			Names: rule.ResourceNames, Reviewed: g.reviewed(one),
		}
		for _, r := range all {
			if one.allows(r) && g.in(r) && r.Last.After(usage.Last) {
				usage.Last = r.Last
			}
		}
		usages = append(usages, usage)
	}
	return usages
}

// WithoutUnused returns the roles with those rules only that were used. Wildcards become what was
// used of them.
func WithoutUnused(granted []Granted, all []inspect.Request) []Role {
	all = withLists(all)
	used := map[string]Permissions{}
	roles := map[string]Role{}
	for _, g := range granted {
		role := Role{Name: g.Name, Labels: g.Labels}
		if g.Kind == roleResource.Kind {
			role.Namespace = g.Namespace
		}
		key := role.Namespace + "/" + g.Name
		roles[key] = role
		used[key] = append(used[key], g.used(all)...)
	}
	var some []Role
	for _, key := range slices.Sorted(maps.Keys(roles)) {
		if role := roles[key]; len(used[key]) > 0 {
			role.Rules = policyRules(used[key].grants())
			some = append(some, role)
		}
	}
	return some
}

// used returns the permissions of a role that were used.
func (g *Granted) used(all []inspect.Request) Permissions {
	var some Permissions
	for _, rule := range g.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, one := range split(rule) {
			some = append(some, g.usedOf(one, names, all)...)
		}
	}
	return some
}

// usedOf returns the permissions for objects of these names that one verb gave and that were used.
func (g *Granted) usedOf(one grantedVerb, names []string, all []inspect.Request) Permissions {
	var some Permissions
	if g.reviewed(one) {
		some = one.permissions(names)
	}
	for _, r := range all {
		if one.allows(r) && g.in(r) {
			some = append(some, grantedVerb{r.Verb, r.Group, r.Resource}.permissions(names)...)
		}
	}
	return some
}

// reviewed reports whether a verb is used without a request.
func (g *Granted) reviewed(v grantedVerb) bool {
	return g.ReadsReviewed && slices.Contains([]string{"get", "list", "watch"}, v.verb)
}

// permissions returns a verb on objects of these names; "" is all.
func (v grantedVerb) permissions(names []string) Permissions {
	plural, subresource, _ := strings.Cut(v.resource, "/")
	var all Permissions
	for _, name := range names {
		all = append(all, permission{resource: object.Resource{Group: v.group, Plural: plural}, subresource: subresource, verb: v.verb,
			name: name})
	}
	return all
}

// in reports whether a request was where the rules are granted.
func (g *Granted) in(r inspect.Request) bool {
	return g.Namespace == "" || g.Namespace == r.Namespace || r.Namespace == inspect.ManyNamespaces
}

// split returns the verbs of a rule one by one.
func split(rule rbac.PolicyRule) []grantedVerb {
	var all []grantedVerb
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all = append(all, grantedVerb{verb, group, resource})
			}
		}
	}
	return all
}

// allows reports whether a rule allows a request.
func (v grantedVerb) allows(r inspect.Request) bool {
	resource := v.resource == "*" || v.resource == r.Resource
	if parent, sub, found := strings.Cut(v.resource, "/"); found && parent == "*" {
		resource = strings.HasSuffix(r.Resource, "/"+sub)
	}
	return resource && (v.verb == "*" || v.verb == r.Verb) && (v.group == "*" || v.group == r.Group)
}

// resourceName returns such as "deployments.apps/status".
func resourceName(group, resource string) string {
	plural, sub, found := strings.Cut(resource, "/")
	if group != "" {
		plural += "." + group
	}
	if found {
		plural += "/" + sub
	}
	return plural
}
