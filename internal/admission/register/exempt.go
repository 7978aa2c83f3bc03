package register

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// ExemptObjects are objects that Setpoint needs to work, and to remove a webhook that is
// down. They are never reviewed.
type ExemptObjects struct {
	// Leases and Secrets are those that Setpoint writes.
	Leases, Secrets []types.NamespacedName
	// CRDs are the names of CRDs that it installs besides those of its own groups.
	CRDs []string
}

// exemptConditions are match conditions that exempt Setpoint's objects, if the rules of a
// webhook match them.
func (r Registration) exemptConditions(w *admission.Webhook) []admissionv1.MatchCondition {
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
	add(object.Leases.Group, object.Leases.Plural, append(nameConditions(r.Exempt.Leases), r.probeCondition())...)
	add("", "secrets", nameConditions(r.Exempt.Secrets)...)
	add("apiextensions.k8s.io", "customresourcedefinitions", r.crdConditions()...)
	return all
}

// probeCondition matches probes. Nothing is stored for other callers that look like one.
func (r Registration) probeCondition() string {
	return fmt.Sprintf("(request.namespace == %s && request.dryRun && object != null && has(object.metadata.labels) && %s in "+
		"object.metadata.labels)",
		strconv.Quote(r.Namespace), strconv.Quote(probeLabel))
}

// crdConditions match the CRDs of Setpoint's groups and those that it installs.
func (r Registration) crdConditions() []string {
	own := lists.Map(admission.ControllerGroups(), func(group string) string {
		return "request.name.endsWith(" + strconv.Quote("."+group) + ")"
	})
	return append(own, lists.Map(r.Exempt.CRDs, func(name string) string { return "request.name == " + strconv.Quote(name) })...)
}

func nameConditions(objects []types.NamespacedName) []string {
	return lists.Map(objects, func(one types.NamespacedName) string {
		return fmt.Sprintf("(request.namespace == %s && request.name == %s)", strconv.Quote(one.Namespace), strconv.Quote(one.Name))
	})
}

// matchesResource reports whether a rule is about a resource.
func matchesResource(rules []admission.Rule, group, resource string) bool {
	return slices.ContainsFunc(rules, func(rule admission.Rule) bool {
		return (rule.Group == group || rule.Group == "*") && slices.ContainsFunc(rule.Resources, func(name string) bool {
			plural, _, _ := strings.Cut(name, "/")
			return plural == resource || plural == "*"
		})
	})
}
