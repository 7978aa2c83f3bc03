package controller

import (
	"log/slog"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// What traces add to a run is free while they are off.
func TestRunsWithoutTracesAllocateNothing(t *testing.T) {
	o := must.Get(object.Parse([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop","uid":"u","resourceVersion":"7"}}`))).In(t)
	b := &Base{Log: slog.New(slog.DiscardHandler)}
	r := &Run{Item: queue.Item{Key: KeyOf(o), Causes: queue.NewCauses(queue.Cause{Kind: queue.ParentChanged})}, Stored: o, Log: b.Log, base: b}
	ctx := t.Context()
	if allocs := testing.AllocsPerRun(1000, func() {
		if b.tracedVersion(o) != 0 || r.startTrace(ctx, "", 1) != ctx || r.trace.ID() != "" {
			t.Error("a run without traces has one")
		}
		r.endTrace(record.Failed)
	}); allocs != 0 {
		t.Errorf("a run without traces allocates %v times", allocs)
	}
}
