package admission

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

// Fault S7: a review of Leases took Setpoint its own, and then could not be taken back.
func TestOwnObjectsAreExempt(t *testing.T) {
	r := inService()
	r.Exempt = ExemptObjects{
		Leases: []ObjectName{{"ops", "setpoint"}}, Secrets: []ObjectName{{"ops", "setpoint-admission"}}, CRDs: []string{"shops.example.org"},
	}
	const (
		lease      = `(request.namespace == "ops" && request.name == "setpoint")`
		secret     = `(request.namespace == "ops" && request.name == "setpoint-admission")`
		definition = `request.name.endsWith(".setpoint.dev") || request.name.endsWith(".metacontroller.k8s.io") || request.name == "shops.example.org"`
	)
	rule := func(group, version string, resources ...string) Rule {
		return Rule{group, version, resources, []hook.Operation{hook.OperationUpdate}}
	}
	for name, c := range map[string]struct {
		rules []Rule
		want  []string
	}{
		"pods":           {[]Rule{rule("", "v1", "pods")}, nil},
		"leases":         {[]Rule{rule("coordination.k8s.io", "v1", "leases")}, []string{lease}},
		"a rule of many": {[]Rule{rule("", "v1", "pods"), rule("", "v1", "secrets/status", "configmaps")}, []string{secret}},
		"definitions":    {[]Rule{rule("apiextensions.k8s.io", "v1", "customresourcedefinitions")}, []string{definition}},
		"all":            {[]Rule{rule("*", "*", "*")}, []string{lease, secret, definition}},
		"all parts":      {[]Rule{rule("*", "*", "*/*")}, []string{lease, secret, definition}},
		"others' leases": {[]Rule{rule("example.org", "v1", "leases")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := &Webhook{Name: "w", Rules: c.rules, Conditions: []Condition{{"theirs", "true"}}}
			got := r.webhook(&Program{Configuration: "c", Webhooks: []Webhook{*w}}, w, nil).MatchConditions
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
		if ExemptGroup(group) != want {
			t.Errorf("%q: %v", group, !want)
		}
	}
}
