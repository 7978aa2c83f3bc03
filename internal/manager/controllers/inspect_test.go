package controllers

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Kinds that handlers may write count as child kinds.
func TestControllerKinds(t *testing.T) {
	owned, pods := object.Resource{Version: "v1", Kind: "ConfigMap"}, object.Resource{Version: "v1", Kind: "Pod"}
	r := &running.Controller{Compiled: &compile.Compiled{Handlers: []handler.Program{{
		Rules: trigger.Rules{Resource: object.Resource{Version: "v1", Kind: "Node"}}, Owns: []object.Resource{owned},
		Writes: []permit.Write{{Resource: pods, Evict: true, Namespace: "shop"}, {Resource: owned, Apply: true}},
	}}}}
	kinds := kindsOf(r.Compiled)
	if children := kinds.written; len(kinds.managed) != 1 || len(children) != 2 || children[0].Kind != "ConfigMap" || children[1].Kind != "Pod" {
		t.Errorf("%+v", kinds)
	}
}

// Reviews run in each replica, all other programs in the leader.
func TestEverywhere(t *testing.T) {
	cs := newTestSet(running.Dependencies{History: inspect.NewHistory(inspect.HistoryOptions{}, time.Now())})
	reviews := &admission.Program{Name: "policy", Configuration: "setpoint-policy"}
	pods := handler.Program{Name: "policy", Rules: trigger.Rules{Resource: object.Resource{Version: "v1", Kind: "Pod"}}}
	for _, c := range []struct {
		compiled compile.Compiled
		want     bool
	}{
		{compile.Compiled{Admission: reviews}, true},
		{compile.Compiled{Admission: reviews, Handlers: []handler.Program{pods}}, false},
		{compile.Compiled{Handlers: []handler.Program{pods}}, false},
	} {
		r := &running.Controller{Compiled: &c.compiled, Dependencies: &cs.Dependencies.Dependencies}
		one := &controllerSnapshot{controllerEntry: controllerEntry{controllerState: controllerState{running: r}}}
		if got := cs.describe(one).AllReplicas; got != c.want {
			t.Errorf("%+v: %v", c.compiled, got)
		}
	}
}
