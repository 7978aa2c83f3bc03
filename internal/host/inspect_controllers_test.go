package host

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// What handlers may write without owning it counts as what they make.
func TestKindsInspected(t *testing.T) {
	owned, pods := object.Resource{Version: "v1", Kind: "ConfigMap"}, object.Resource{Version: "v1", Kind: "Pod"}
	r := &running{Compiled: &compile.Compiled{Reactions: []react.Program{{
		Resource: object.Resource{Version: "v1", Kind: "Node"}, Owns: []object.Resource{owned},
		Writes: []react.Write{{Resource: pods, Evict: true, Namespace: "shop"}, {Resource: owned, Apply: true}},
	}}}}
	kinds, children := kindsInspected(r)
	if len(kinds) != 1 || len(children) != 2 || children[0].Kind != "ConfigMap" || children[1].Kind != "Pod" {
		t.Errorf("kinds %v, children %v", kinds, children)
	}
}
