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
		"decorator":   {engine.Program{Parent: shops, Mark: plan.Mark{Key: "a"}}, parent + ", update shops, patch shops"},
		"finalizing":  {engine.Program{Parent: shops, Finalize: finalize}, parent + ", update shops, patch shops, patch controllers"},
	} {
		t.Run(name, func(t *testing.T) {
			// Two kinds of parents have much in common.
			twice := &compile.Compiled{Programs: []engine.Program{c.program, c.program}}
			var got []string
			for _, n := range needs(object.Resource{Version: "v1", Plural: "controllers"}, twice) {
				got = append(got, strings.NewReplacer(".example.org/v1", "", ".apps/v1", "", ".v1", "").Replace(n.String()))
			}
			want := strings.Split(c.want, ", ")
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
