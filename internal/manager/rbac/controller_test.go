package rbac

import (
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/plan/rolling"
)

func TestControllerPermissions(t *testing.T) {
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Namespaced: true, Status: true}
	maps := object.Resource{Version: "v1", Plural: "configmaps", Namespaced: true}
	hooked := call.New(call.Config{})
	var finalize hook.Hook = hooked
	const parent = "get shops, list shops, watch shops, update shops/status"
	const child = "get configmaps, list configmaps, watch configmaps, create configmaps, update configmaps, delete configmaps"
	towns := object.Resource{Group: "example.org", Version: "v1", Plural: "towns"}
	limited := []string{"a", "b"}
	const revisions = "get controllerrevisions, list controllerrevisions, watch controllerrevisions, " +
		"create controllerrevisions, update controllerrevisions, delete controllerrevisions"
	for name, c := range map[string]struct {
		program composite.Program
		want    string
	}{
		"plain":       {composite.Program{Parent: shops, Children: plan.Rules{{Resource: maps, Method: plan.InPlace}}}, parent + ", " + child},
		"server-side": {composite.Program{Parent: shops, Children: plan.Rules{{Resource: maps, Strategy: plan.ServerSide}}}, parent + ", " + child + ", patch configmaps"},
		"rolling":     {composite.Program{Parent: shops, Children: plan.Rules{{Resource: maps, Method: plan.RollingInPlace}}}, parent + ", " + child + ", " + revisions},
		"no status":   {composite.Program{Parent: maps}, "get configmaps, list configmaps, watch configmaps"},
		"decorator":   {composite.Program{Parent: shops, Mark: plan.Mark{Key: "a"}}, parent + ", update shops"},
		"in a namespace": {composite.Program{Parent: shops, Finalize: finalize, Namespace: "a", Namespaces: limited, Children: plan.Rules{{Resource: maps}}},
			strings.ReplaceAll(parent+", "+child+", update shops, patch shops, ", ",", " in a,") + "patch controllers"},
		"in namespaces of a cluster-scoped parent": {
			composite.Program{Parent: towns, Namespaces: limited, Children: plan.Rules{{Resource: maps, Method: plan.RollingInPlace}}, Revisions: rolling.Revisions{Namespace: "home"}},
			"get towns, list towns, watch towns, " + strings.ReplaceAll(child+", ", ",", " in a,") + strings.ReplaceAll(child+", ", ",", " in b,") +
				strings.ReplaceAll(revisions, ",", " in home,") + " in home",
		},
		"finalizing": {composite.Program{Parent: shops, Finalize: finalize}, parent + ", update shops, patch shops, patch controllers"},
	} {
		t.Run(name, func(t *testing.T) {
			// Two programs share permissions.
			twice := &compile.Compiled{Programs: []composite.Program{c.program, c.program}}
			comparePermissions(t, c.want, (&Process{}).forController(object.Resource{Version: "v1", Plural: "controllers"}, twice))
		})
	}
}

func comparePermissions(t *testing.T, text string, all Permissions) {
	t.Helper()
	var got []string
	for _, n := range all {
		got = append(got, strings.NewReplacer(".example.org/v1", "", ".apps/v1", "", ".v1", "").Replace(n.String()))
	}
	want := strings.Split(text, ", ")
	slices.Sort(got)
	slices.Sort(want)
	compare(t, want, got)
}

func TestHandlerPermissions(t *testing.T) {
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Namespaced: true, Status: true}
	maps := object.Resource{Version: "v1", Plural: "configmaps", Namespaced: true}
	pods := object.Resource{Version: "v1", Plural: "pods", Namespaced: true}
	nodes := object.Resource{Version: "v1", Plural: "nodes"}
	const plain = "get configmaps, list configmaps, watch configmaps, patch configmaps"
	creating := func(resource object.Resource) trigger.Rules {
		return trigger.Rules{Resource: resource, Handlers: []trigger.Handler{{On: []hook.Reason{hook.ReasonCreate}}}}
	}
	writing := func(writes ...permit.Write) handler.Program {
		return handler.Program{Rules: creating(maps), Writes: writes}
	}
	deleting := func(h trigger.Handler) handler.Program {
		h.On = []hook.Reason{hook.ReasonDelete}
		return handler.Program{Rules: trigger.Rules{Resource: maps, Handlers: []trigger.Handler{h}}}
	}
	for name, c := range map[string]struct {
		program handler.Program
		want    string
	}{
		"plain":  {handler.Program{Rules: creating(maps)}, plain},
		"status": {handler.Program{Rules: creating(shops)}, "get shops, list shops, watch shops, patch shops, patch shops/status"},
		"owning": {handler.Program{Rules: creating(nodes), Owns: []object.Resource{maps}},
			plain + ", create configmaps, delete configmaps, get nodes, list nodes, watch nodes, patch nodes"},
		"owning in namespaces": {
			handler.Program{Rules: creating(nodes), Owns: []object.Resource{maps}, Namespaces: []string{"a"}, Writes: []permit.Write{
				{Resource: shops, Apply: true}, {Resource: pods, Apply: true, Namespace: "c"},
			}},
			strings.ReplaceAll(plain+", create configmaps, delete configmaps, create shops, patch shops, ", ",", " in a,") + "get nodes, list nodes, watch nodes, patch nodes",
		},
		"applying":      {writing(permit.Write{Resource: shops, Apply: true}), plain + ", create shops, patch shops"},
		"deleting":      {writing(permit.Write{Resource: shops, Delete: true}), plain + ", get shops, list shops, delete shops"},
		"deleting pods": {writing(permit.Write{Resource: pods, Delete: true}), plain + ", get pods, list pods, delete pods"},
		"evicting":      {writing(permit.Write{Resource: pods, Evict: true}), plain + ", get pods, list pods, create pods/eviction"},
		"either": {writing(permit.Write{Resource: pods, Delete: true, Evict: true}),
			plain + ", get pods, list pods, delete pods, create pods/eviction"},
		"in one namespace": {writing(permit.Write{Resource: shops, Apply: true, Namespace: "b"}, permit.Write{Resource: nodes, Apply: true, Namespace: "b"}),
			plain + ", create shops in b, patch shops in b, create nodes, patch nodes"},
		"limited": {handler.Program{Rules: creating(maps), Namespaces: []string{"a", "b"}},
			"get configmaps in a, list configmaps in a, watch configmaps in a, patch configmaps in a, get configmaps in b, list configmaps in b, watch configmaps in b, patch configmaps in b"},
		"cluster-scoped": {handler.Program{Rules: creating(nodes), Namespaces: []string{"a"}},
			"get nodes, list nodes, watch nodes, patch nodes"},
		"watching only":              {handler.Program{Rules: trigger.Rules{Resource: maps}}, "get configmaps, list configmaps, watch configmaps"},
		"finalizing, with an object": {deleting(trigger.Handler{}), plain + ", patch controllers"},
		"optional, with an object":   {deleting(trigger.Handler{Optional: true}), plain},
	} {
		t.Run(name, func(t *testing.T) {
			comparePermissions(t, c.want, (&Process{}).forController(object.Resource{Version: "v1", Plural: "controllers"}, &compile.Compiled{Handlers: []handler.Program{c.program}}))
		})
	}
}
