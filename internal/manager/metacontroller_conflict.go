package manager

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

const (
	// detectInterval is how often Metacontrollers are looked for, and recheckInterval how
	// often while there is one that a controller waits for.
	detectInterval  = 30 * time.Second
	recheckInterval = 5 * time.Second
)

// metacontrollerDetector are the Metacontrollers in the same cluster, as they were when last
// looked for. Two that work on the same objects would undo each other's work, so
// a controller of their group runs here only where none of them has it.
type metacontrollerDetector struct {
	find func(context.Context) ([]otherMetacontroller, error)
	now  func() time.Time

	mu        sync.Mutex
	checkedAt time.Time
	found     []otherMetacontroller
	// findErr is why they cannot be looked for; nil if they can.
	findErr error
}

// get looks for them unless it was done just now.
func (d *metacontrollerDetector) get(ctx context.Context) ([]otherMetacontroller, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now().Sub(d.checkedAt) >= detectInterval {
		if err := d.refresh(ctx); err != nil {
			return nil, err
		}
	}
	return d.found, d.findErr
}

// refreshChanged looks for them now, and says whether there are others than before.
func (d *metacontrollerDetector) refreshChanged(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := fmt.Sprint(d.found, d.findErr)
	return d.refresh(ctx) == nil && before != fmt.Sprint(d.found, d.findErr)
}

// refresh looks for them. What is not allowed is no error, but known; after
// another one, the next look is soon. The caller holds the lock.
func (d *metacontrollerDetector) refresh(ctx context.Context) error {
	found, err := d.find(ctx)
	if err != nil && !isForbiddenOrNotFound(err) {
		return err
	}
	d.checkedAt, d.found, d.findErr = d.now(), found, err
	return nil
}

// conflict refuses a controller object that one of them works on. The note says
// what could not be found out.
func (d *metacontrollerDetector) conflict(ctx context.Context, declared *object.Object) (note string, err error) {
	if plan.Annotation(declared, setpoint.AnnotationIgnoreMetacontroller) == "true" {
		return "", nil
	}
	found, err := d.get(ctx)
	switch {
	case isForbiddenOrNotFound(err):
		return fmt.Sprintf("it could not be found out whether a Metacontroller runs here too (%v); make sure that none does", err), nil
	case err != nil:
		return "", fmt.Errorf("look for a Metacontroller in this cluster: %w", err)
	}
	i := slices.IndexFunc(found, func(one otherMetacontroller) bool {
		return one.targets == nil || one.targets.Matches(declared.Labels())
	})
	if i < 0 {
		return "", nil
	}
	return "", &compile.Refusal{Reason: setpoint.ReasonConflictingMetacontroller, Err: fmt.Errorf(
		"a Metacontroller runs in this cluster (%s), and the two would undo each other's work: scale it to 0, and this controller starts by itself; "+
			"or, where it leaves this object alone, say so by the annotation %s: \"true\"", found[i].name, setpoint.AnnotationIgnoreMetacontroller)}
}

// watchMetacontrollers looks for Metacontrollers now and then, as long as there are
// controllers that they could have, and looks again at those when it finds others
// than before.
func (cs *controllerSet) watchMetacontrollers(ctx context.Context) {
	ticker := time.NewTicker(recheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		concerned, waiting := cs.metacontrollerKeys()
		if len(concerned) == 0 || !waiting && !cs.manager.metacontrollers.isDue() {
			continue
		}
		if !cs.manager.metacontrollers.refreshChanged(ctx) {
			continue
		}
		for _, key := range concerned {
			cs.queue.Add(key, queue.Cause{Kind: queue.RelatedChanged, Detail: metacontrollerName})
		}
	}
}

func (d *metacontrollerDetector) isDue() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now().Sub(d.checkedAt) >= detectInterval
}

// metacontrollerKeys are the controllers that Metacontroller could have too, and whether
// one of them waits for a Metacontroller to go.
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
