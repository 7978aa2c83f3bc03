package controllers

import (
	"errors"
	"testing"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// A waiting controller is reconciled when a CRD changes, with a short backoff from then on.
func TestChangedCRDRequeuesWaitingController(t *testing.T) {
	cs := newTestSet(Dependencies{GoControllers: []GoController{{Name: "keeper"}}})
	key := goControllerKey("keeper")
	cs.replace(t.Context(), key, controllerState{refusal: &compile.Refusal{Reason: setpoint.ReasonResourceNotFound, Err: errors.New("no")}}, nil)
	fail := func() time.Duration {
		item, _ := cs.queue.Next(t.Context())
		return cs.queue.Done(item.Key, queue.Retry())
	}
	cs.queue.Add(key, queue.Cause{Kind: queue.Start})
	first := fail()
	for range 5 {
		cs.queue.Add(key, queue.Cause{Kind: queue.ChildChanged})
		_ = fail()
	}
	cs.compilation.crdWatches.changed(cache.Event{New: controllerObject(t, `{"name":"shops.example.org"}`)})
	if cs.queue.Len() != 1 {
		t.Error("not requeued")
	} else if again := fail(); again > 2*first {
		t.Errorf("retried in %s, not in %s", again, first)
	}
}
