package manager

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// metacontrollerInterval is the interval of detection while a controller is refused because
// of a Metacontroller.
const metacontrollerInterval = 5 * time.Second

// watchMetacontrollers detects Metacontrollers periodically while there are controllers that
// they could run, and enqueues these when the result changes.
func (cs *controllerSet) watchMetacontrollers(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		concerned, waiting := cs.metacontrollerKeys()
		if len(concerned) == 0 || !waiting && !cs.manager.metacontrollers.IsDue() {
			return
		}
		if !cs.manager.metacontrollers.RefreshChanged(ctx) {
			return
		}
		for _, key := range concerned {
			cs.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: conflicts.MetacontrollerName})
		}
	}, metacontrollerInterval)
}

// metacontrollerKeys returns the controllers that Metacontroller could run too, and whether
// one of them is refused because of it.
func (cs *controllerSet) metacontrollerKeys() (keys []queue.Key, waiting bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key, e := range cs.entries {
		if !cs.kinds[key.Namespace].Metacontroller() {
			continue
		}
		keys = append(keys, key)
		waiting = waiting || e.refused(setpoint.ReasonConflictingMetacontroller)
	}
	return keys, waiting
}
