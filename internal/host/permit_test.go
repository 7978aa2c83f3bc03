package host

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/react"
)

func TestNeeds(t *testing.T) {
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Namespaced: true, Status: true}
	maps := object.Resource{Version: "v1", Plural: "configmaps", Namespaced: true}
	hooked, err := webhook.New(webhook.Config{URL: "http://hook"})
	if err != nil {
		t.Fatal(err)
	}
	var finalize hook.Hook = hooked
	const parent = "get shops, list shops, watch shops, update shops/status"
	const child = "get configmaps, list configmaps, watch configmaps, create configmaps, update configmaps, delete configmaps"
	const revisions = "get controllerrevisions, list controllerrevisions, watch controllerrevisions, " +
		"create controllerrevisions, update controllerrevisions, delete controllerrevisions"
	for name, c := range map[string]struct {
		program engine.Program
		want    string
	}{
		"plain":       {engine.Program{Parent: shops, Children: plan.Rules{{Resource: maps, Method: plan.InPlace}}}, parent + ", " + child},
		"server-side": {engine.Program{Parent: shops, Children: plan.Rules{{Resource: maps, Strategy: plan.ServerSide}}}, parent + ", " + child + ", patch configmaps"},
		"rolling":     {engine.Program{Parent: shops, Children: plan.Rules{{Resource: maps, Method: plan.RollingInPlace}}}, parent + ", " + child + ", " + revisions},
		"no status":   {engine.Program{Parent: maps}, "get configmaps, list configmaps, watch configmaps"},
		"decorator":   {engine.Program{Parent: shops, Mark: plan.Mark{Key: "a"}}, parent + ", update shops"},
		"finalizing":  {engine.Program{Parent: shops, Finalize: finalize}, parent + ", update shops, patch shops, patch controllers"},
	} {
		t.Run(name, func(t *testing.T) {
			// Two kinds of parents have much in common.
			twice := &compile.Compiled{Programs: []engine.Program{c.program, c.program}}
			compareNeeds(t, c.want, needs(object.Resource{Version: "v1", Plural: "controllers"}, twice, &Options{}))
		})
	}
}

func compareNeeds(t *testing.T, text string, all []need) {
	t.Helper()
	var got []string
	for _, n := range all {
		got = append(got, strings.NewReplacer(".example.org/v1", "", ".apps/v1", "", ".v1", "").Replace(n.String()))
	}
	want := strings.Split(text, ", ")
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNeedsOfHandlers(t *testing.T) {
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Namespaced: true, Status: true}
	maps := object.Resource{Version: "v1", Plural: "configmaps", Namespaced: true}
	pods := object.Resource{Version: "v1", Plural: "pods", Namespaced: true}
	nodes := object.Resource{Version: "v1", Plural: "nodes"}
	const plain = "get configmaps, list configmaps, watch configmaps, patch configmaps"
	some := []react.Handler{{On: []hook.Reason{hook.ReasonCreate}}}
	for name, c := range map[string]struct {
		program react.Program
		want    string
	}{
		"plain":         {react.Program{Handlers: some, Resource: maps}, plain},
		"status":        {react.Program{Handlers: some, Resource: shops}, "get shops, list shops, watch shops, patch shops, patch shops/status"},
		"owning":        {react.Program{Handlers: some, Resource: nodes, Owns: []object.Resource{maps}}, plain + ", create configmaps, delete configmaps, get nodes, list nodes, watch nodes, patch nodes"},
		"applying":      {react.Program{Handlers: some, Resource: maps, Writes: []react.Write{{Resource: shops, Apply: true}}}, plain + ", create shops, patch shops"},
		"deleting":      {react.Program{Handlers: some, Resource: maps, Writes: []react.Write{{Resource: shops, Delete: true}}}, plain + ", get shops, list shops, delete shops"},
		"deleting pods": {react.Program{Handlers: some, Resource: maps, Writes: []react.Write{{Resource: pods, Delete: true}}}, plain + ", get pods, list pods, delete pods"},
		"evicting":      {react.Program{Handlers: some, Resource: maps, Writes: []react.Write{{Resource: pods, Evict: true}}}, plain + ", get pods, list pods, create pods/eviction"},
		"either":        {react.Program{Handlers: some, Resource: maps, Writes: []react.Write{{Resource: pods, Delete: true, Evict: true}}}, plain + ", get pods, list pods, delete pods, create pods/eviction"},
		"in a place": {react.Program{Handlers: some, Resource: maps, Writes: []react.Write{{Resource: shops, Apply: true, Namespace: "b"}, {Resource: nodes, Apply: true, Namespace: "b"}}},
			plain + ", create shops in b, patch shops in b, create nodes, patch nodes"},
		"limited": {react.Program{Handlers: some, Resource: maps, Namespaces: []string{"a", "b"}},
			"get configmaps in a, list configmaps in a, watch configmaps in a, patch configmaps in a, get configmaps in b, list configmaps in b, watch configmaps in b, patch configmaps in b"},
		"not in any":                 {react.Program{Handlers: some, Resource: nodes, Namespaces: []string{"a"}}, "get nodes, list nodes, watch nodes, patch nodes"},
		"looking on":                 {react.Program{Resource: maps}, "get configmaps, list configmaps, watch configmaps"},
		"finalizing, with an object": {react.Program{Resource: maps, Handlers: []react.Handler{{On: []hook.Reason{hook.ReasonDelete}}}}, plain + ", patch controllers"},
		"optional, with an object":   {react.Program{Resource: maps, Handlers: []react.Handler{{On: []hook.Reason{hook.ReasonDelete}, Optional: true}}}, plain},
	} {
		t.Run(name, func(t *testing.T) {
			compareNeeds(t, c.want, needs(object.Resource{Version: "v1", Plural: "controllers"}, &compile.Compiled{Reactions: []react.Program{c.program}}, &Options{}))
		})
	}
}
