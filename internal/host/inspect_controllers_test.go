package host

import (
	"log/slog"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect"
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
	kinds, children := kindsInspected(r.Compiled)
	if len(kinds) != 1 || len(children) != 2 || children[0].Kind != "ConfigMap" || children[1].Kind != "Pod" {
		t.Errorf("kinds %v, children %v", kinds, children)
	}
}

// Reviews are answered in each replica; what else a controller does, by the one that leads.
func TestEverywhere(t *testing.T) {
	h := &Host{log: slog.New(slog.DiscardHandler), book: inspect.NewBook(inspect.BookOptions{}, time.Now()), office: newOffice()}
	fleetOf(h)
	pods := react.Program{Name: "policy", Resource: object.Resource{Version: "v1", Kind: "Pod"}}
	for _, c := range []struct {
		compiled compile.Compiled
		want     bool
	}{
		{compile.Compiled{Admission: denying("policy")}, true},
		{compile.Compiled{Admission: denying("policy"), Reactions: []react.Program{pods}}, false},
		{compile.Compiled{Reactions: []react.Program{pods}}, false},
	} {
		one := &subject{name: "policy", state: state{running: &running{Compiled: &c.compiled, gate: h.gate}}}
		if got := (&source{h}).controller(one).Everywhere; got != c.want {
			t.Errorf("%+v: %v", c.compiled, got)
		}
	}
}
