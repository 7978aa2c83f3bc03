package rbac

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// rulesText describes rules, with a dash for the core group.
func rulesText(rules []Rule) string {
	var lines []string
	for _, r := range rules {
		group := strings.Join(r.APIGroups, ",")
		if group == "" {
			group = "-"
		}
		line := fmt.Sprintf("%s %s: %s", group, strings.Join(r.Resources, ","), strings.Join(r.Verbs, " "))
		if len(r.ResourceNames) > 0 {
			line += " of " + strings.Join(r.ResourceNames, ", ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func compare(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRequiredClusterRules(t *testing.T) {
	rates := object.Resource{Group: "example.org", Version: "v1", Plural: "rates", Kind: "Rate", Namespaced: true, Status: true, Custom: true}
	maps := object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	pods := object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true, Status: true}
	secrets := object.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
	sets := object.Resource{Group: "apps", Version: "v1", Plural: "statefulsets", Kind: "StatefulSet", Namespaced: true, Status: true}
	reacting := func(p handler.Program) *compile.Compiled {
		p.Handlers = []trigger.Handler{{}}
		return &compile.Compiled{Handlers: []handler.Program{p}}
	}
	definitions := must.Get(crds.Parse([][]byte{[]byte("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: rates.example.org}\n")}, false)).In(t)
	for name, c := range map[string]struct {
		compiled []*compile.Compiled
		process  Process
		want     string
	}{
		"inspected by a token in a Secret": { // Fault S10.
			process: Process{Namespace: "shop", InspectSecret: "setpoint-inspect"},
			want:    "\n- secrets: get update of setpoint-inspect",
		},
		"handlers of a kind of its own": {
			compiled: []*compile.Compiled{reacting(handler.Program{Rules: trigger.Rules{Resource: rates}, Owns: []object.Resource{maps}})},
			process:  Process{CRDs: definitions, LeaderElection: leader.Election{Enabled: true, Name: "rates"}},
			want: `
- configmaps: get list watch create patch delete
- events: create patch
apiextensions.k8s.io customresourcedefinitions: get list watch create patch of rates.example.org
coordination.k8s.io leases: create
coordination.k8s.io leases: get update of rates
example.org rates: get list watch patch
example.org rates/finalizers: update
example.org rates/status: patch`},
		"a kind that others define": {
			compiled: []*compile.Compiled{reacting(handler.Program{Rules: trigger.Rules{Resource: rates}})},
			want: `
- events: create patch
apiextensions.k8s.io customresourcedefinitions: get list watch of rates.example.org
example.org rates: get list watch patch
example.org rates/status: patch`},
		"two kinds, one rule": {
			compiled: []*compile.Compiled{
				reacting(handler.Program{Rules: trigger.Rules{Resource: secrets}}), reacting(handler.Program{Rules: trigger.Rules{Resource: maps}}),
			},
			want: `
- configmaps,secrets: get list watch patch
- events: create patch`},
		"what is only looked on at": {
			compiled: []*compile.Compiled{{Handlers: []handler.Program{{Rules: trigger.Rules{Resource: maps}}}}},
			want: `
- configmaps: get list watch`},
		"what is read beside": {
			compiled: []*compile.Compiled{{Programs: []composite.Program{{Parent: maps, Reads: []object.Resource{secrets, maps, rates}}}}},
			want: `
- configmaps,secrets: get list watch
- events: create patch
apiextensions.k8s.io customresourcedefinitions: get list watch of rates.example.org
example.org rates: get list watch`},
		"pods are evicted": {
			compiled: []*compile.Compiled{reacting(handler.Program{
				Rules: trigger.Rules{Resource: maps}, Writes: []permit.Write{{Resource: pods, Evict: true}},
			})},
			want: `
- configmaps: get list watch patch
- events: create patch
- pods: get list
- pods/eviction: create`},
		"a program that finalizes": {
			compiled: []*compile.Compiled{{Programs: []composite.Program{{Parent: maps, Finalize: hook.Func(nil)}}}},
			want: `
- configmaps: get list watch update
- events: create patch`},
		"pods are looked at": {
			compiled: []*compile.Compiled{reacting(handler.Program{Rules: trigger.Rules{Resource: maps}, Reads: []object.Resource{pods}})},
			want: `
- configmaps: get list watch patch
- events: create patch
- pods: list`},
		"parents and children": {
			compiled: []*compile.Compiled{{Programs: []composite.Program{{Parent: sets, Children: plan.Rules{{Resource: pods, Method: plan.InPlace}}}}}},
			want: `
- events: create patch
- pods: get list watch create update delete
apps statefulsets: get list watch
apps statefulsets/finalizers,statefulsets/status: update`},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, strings.TrimPrefix(c.want, "\n"), rulesText(policyRules(c.process.Required(c.compiled))))
		})
	}
}

// A program limited to namespaces needs rules in these, and a Lease in its own.
func TestRequiredRulesByNamespace(t *testing.T) {
	maps := object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	pods := object.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}
	nodes := object.Resource{Version: "v1", Plural: "nodes", Kind: "Node"}
	all := []*compile.Compiled{
		{Handlers: []handler.Program{{
			Rules: trigger.Rules{Handlers: []trigger.Handler{{}}, Resource: maps}, Namespaces: []string{"b", "a"},
			Writes: []permit.Write{{Resource: pods, Delete: true, Evict: true, Namespace: "a"}},
		}}},
		{Handlers: []handler.Program{{Rules: trigger.Rules{Handlers: []trigger.Handler{{}}, Resource: nodes}}}},
		{Handlers: []handler.Program{{Rules: trigger.Rules{Handlers: []trigger.Handler{{}}, Resource: pods}}}},
	}
	process := Process{Namespace: "home", LeaderElection: leader.Election{Enabled: true, Namespace: "home", Name: "own"}}
	got := ""
	for _, g := range process.Required(all).RulesByNamespace() {
		got += fmt.Sprintf("in %q\n%s\n", g.Namespace, rulesText(g.Rules))
	}
	const want = `in ""
- events: create patch
- nodes,pods: get list watch patch
in "a"
- configmaps: get list watch patch
- pods: delete
- pods/eviction: create
in "b"
- configmaps: get list watch patch
in "home"
coordination.k8s.io leases: create
coordination.k8s.io leases: get update of own
`
	compare(t, want, got)
}
