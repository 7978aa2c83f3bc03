package register

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
)

// Fault S7: a review of Leases took Setpoint its own, and then could not be taken back.
func TestOwnObjectsAreExempt(t *testing.T) {
	r := inService()
	r.Exempt = ExemptObjects{
		Leases: []types.NamespacedName{{Namespace: "ops", Name: "setpoint"}}, Secrets: []types.NamespacedName{{Namespace: "ops", Name: "setpoint-admission"}}, CRDs: []string{"shops.example.org"},
	}
	const (
		lease      = `(request.namespace == "ops" && request.name == "setpoint")`
		secret     = `(request.namespace == "ops" && request.name == "setpoint-admission")`
		definition = `request.name.endsWith(".setpoint.dev") || request.name.endsWith(".metacontroller.k8s.io") || request.name == "shops.example.org"`
	)
	rule := func(group, version string, resources ...string) admission.Rule {
		return admission.Rule{Group: group, Version: version, Resources: resources, Operations: []hook.Operation{hook.OperationUpdate}}
	}
	for name, c := range map[string]struct {
		rules []admission.Rule
		want  []string
	}{
		"pods":           {[]admission.Rule{rule("", "v1", "pods")}, nil},
		"leases":         {[]admission.Rule{rule("coordination.k8s.io", "v1", "leases")}, []string{lease}},
		"a rule of many": {[]admission.Rule{rule("", "v1", "pods"), rule("", "v1", "secrets/status", "configmaps")}, []string{secret}},
		"definitions":    {[]admission.Rule{rule("apiextensions.k8s.io", "v1", "customresourcedefinitions")}, []string{definition}},
		"all":            {[]admission.Rule{rule("*", "*", "*")}, []string{lease, secret, definition}},
		"all parts":      {[]admission.Rule{rule("*", "*", "*/*")}, []string{lease, secret, definition}},
		"others' leases": {[]admission.Rule{rule("example.org", "v1", "leases")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := &admission.Webhook{Name: "w", Rules: c.rules, Conditions: []admissionv1.MatchCondition{{Name: "theirs", Expression: "true"}}}
			got := r.webhook(&admission.Program{Configuration: "c", Webhooks: []admission.Webhook{*w}}, w, nil).MatchConditions
			if len(got) != 1+len(c.want) || got[0].Name != "theirs" {
				t.Fatalf("%v", got)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i+1].Expression, want) {
					t.Errorf("%s lacks %s", got[i+1], want)
				}
			}
		})
	}
	for group, want := range map[string]bool{"setpoint.dev": true, "metacontroller.k8s.io": true, "admissionregistration.k8s.io": true, "apps": false, "": false} {
		if admission.ExemptGroup(group) != want {
			t.Errorf("%q: %v", group, !want)
		}
	}
}
