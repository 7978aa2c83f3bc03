package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// ExemptGroup says that objects of a group are not reviewed: a hook that is down is
// mended, suspended and deleted by way of these. The API server spares webhook
// configurations itself.
func ExemptGroup(group string) bool {
	return group == "admissionregistration.k8s.io" || slices.Contains(controllerGroups(), group)
}

// controllerGroups are those of the kinds of controllers that Setpoint runs.
func controllerGroups() []string { return []string{"setpoint.dev", "metacontroller.k8s.io"} }

// ExemptObjects are the objects without which Setpoint cannot work, and so cannot take back a
// review whose hook is down. It is asked about none of them, wherever it runs.
type ExemptObjects struct {
	// Leases and Secrets are those it keeps, as namespace and name.
	Leases, Secrets []ObjectName
	// CRDs are the names of CRDs it installs beside those of its own groups.
	CRDs []string
}

// ObjectName is the name of an object in a namespace.
type ObjectName struct{ Namespace, Name string }

// exemptConditions are conditions by which a webhook is not asked about our own objects, as far as
// its rules are about such.
func (r Registration) exemptConditions(w *Webhook) []admissionv1.MatchCondition {
	var all []admissionv1.MatchCondition
	add := func(group, resource string, own ...string) {
		if len(own) > 0 && matchesResource(w.Rules, group, resource) {
			all = append(all, admissionv1.MatchCondition{
				Name: "spares-own-" + resource + webhookDomain,
				Expression: fmt.Sprintf("request.resource.group != %s || request.resource.resource != %s || !(%s)",
					strconv.Quote(group), strconv.Quote(resource), strings.Join(own, " || ")),
			})
		}
	}
	add(leases.Group, leases.Plural, append(nameConditions(r.Exempt.Leases), r.probeCondition())...)
	add("", secrets.Plural, nameConditions(r.Exempt.Secrets)...)
	add("apiextensions.k8s.io", "customresourcedefinitions", r.crdConditions()...)
	return all
}

// probeCondition are what Setpoint finds out with whether it is asked. Who else calls a Lease so
// stores none.
func (r Registration) probeCondition() string {
	return fmt.Sprintf("(request.namespace == %s && request.dryRun && object != null && has(object.metadata.labels) && %s in object.metadata.labels)",
		strconv.Quote(r.Namespace), strconv.Quote(probeLabel))
}

// crdConditions are the CRDs of the groups that Setpoint serves, and of those it installs.
func (r Registration) crdConditions() []string {
	var all []string
	for _, group := range controllerGroups() {
		all = append(all, "request.name.endsWith("+strconv.Quote("."+group)+")")
	}
	for _, name := range r.Exempt.CRDs {
		all = append(all, "request.name == "+strconv.Quote(name))
	}
	return all
}

func nameConditions(objects []ObjectName) []string {
	var all []string
	for _, one := range objects {
		all = append(all, fmt.Sprintf("(request.namespace == %s && request.name == %s)", strconv.Quote(one.Namespace), strconv.Quote(one.Name)))
	}
	return all
}

// matchesResource says whether rules are about a resource.
func matchesResource(rules []Rule, group, resource string) bool {
	return slices.ContainsFunc(rules, func(rule Rule) bool {
		return (rule.Group == group || rule.Group == "*") && slices.ContainsFunc(rule.Resources, func(name string) bool {
			plural, _, _ := strings.Cut(name, "/")
			return plural == resource || plural == "*"
		})
	})
}
