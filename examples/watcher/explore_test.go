package main

import (
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/setpointtest"
)

// TestEveryOrderOfEvents edits the data of a Watcher and deletes it, with a crash and a fault, in any order.
func TestEveryOrderOfEvents(t *testing.T) {
	setpointtest.Explore(t, newApp(), setpointtest.Exploration{
		Objects: []any{tail()},
		Edits: []setpointtest.Edit{
			{Name: "other data", Patch: "spec: {configData: {a: '2'}}"},
			{Name: "more data", Patch: "spec: {configData: {a: '1', c: '3'}}"},
			{Name: "delete it", Delete: true},
		},
		Invariants: []setpointtest.Invariant{{
			Name:       "the ConfigMap has the data",
			Eventually: "parents.all(p, p.kind != 'Watcher' || children.exists(c, c.metadata.name == p.metadata.name + '-config' && c.data == p.spec.configData))",
		}},
		Bounds: setpointtest.Bounds{Edits: 1, Crashes: 1, Faults: 1, Time: 10 * time.Minute},
	})
}
