package controllers

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Fault M15: the status belongs to the older controllers of the same parents, and to the
// younger one when they stop.
func TestStatusIsYieldedToOlderControllers(t *testing.T) {
	cs := newTestSet(running.Dependencies{})
	shops := object.Resource{Group: "example.org", Version: "v1", Plural: "shops", Kind: "Shop"}
	started := func(name, rank string, children ...plan.Rule) *compile.Compiled {
		t.Helper()
		compiled := &compile.Compiled{Programs: []composite.Program{{Name: name, Parent: shops, Children: children}}}
		must.Succeed(t, cs.registry.all().checkConflict(queue.Key{Name: name}, rank, compiled))
		cs.registry.entries[queue.Key{Name: name}] = controllerEntry{controllerState: controllerState{key: queue.Key{Name: name}, rank: rank, running: &running.Controller{Compiled: compiled}}}
		return compiled
	}
	owners := func(c *compile.Compiled) string {
		names := lists.Map(c.Programs[0].StatusOwners, func(o composite.StatusOwner) string { return o.Name })
		return strings.Join(names, " ")
	}
	third := started("third", "3")
	if owners(third) != "" || len(third.Notes) != 0 {
		t.Errorf("alone: %v, %v", owners(third), third.Notes)
	}
	first := started("first", "1", plan.Rule{Resource: shops})
	next := cs.registry.get(queue.Key{Name: "first"}).controllerState
	if younger := cs.registry.all().youngerConflicting(next); owners(first) != "" || len(younger) != 1 {
		t.Errorf("the oldest yields the status to %q, %d restart", owners(first), len(younger))
	}
	third = started("third", "3")
	if owners(third) != "first" || len(third.Notes) != 1 || !strings.HasPrefix(third.Notes[0], "first takes precedence for shops.example.org/v1 and ") {
		t.Errorf("yielded to %q: %q", owners(third), third.Notes)
	}
	if younger := cs.registry.all().youngerConflicting(next); len(younger) != 0 {
		t.Errorf("%d restart needlessly", len(younger))
	}
	second := started("second", "2")
	if third = started("third", "3"); owners(second) != "first" || owners(third) != "first second" {
		t.Errorf("yielded to %q and %q", owners(second), owners(third))
	}
	twin := &compile.Compiled{Programs: []composite.Program{{Name: "twin", Parent: shops, Children: first.Programs[0].Children}}}
	if err := cs.registry.all().checkConflict(queue.Key{Name: "twin"}, "4", twin); err == nil || !strings.Contains(err.Error(), "first is already the controller of shops.example.org/v1; both declare ") {
		t.Errorf("with the same children: %v", err)
	}
	delete(cs.registry.entries, queue.Key{Name: "first"})
	cs.requeueConflicting(queue.Key{Name: "first"})
	if waiting := cs.queue.Len(); waiting != 2 {
		t.Errorf("%d of 2 requeued after the status owner is deleted", waiting)
	}
	if second = started("second", "2"); owners(second) != "" {
		t.Errorf("yielded to %q, which is deleted", owners(second))
	}
}
