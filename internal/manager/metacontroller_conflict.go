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
	// detectInterval is the interval of detection; recheckInterval, that while a controller
	// is refused because of a Metacontroller.
	detectInterval  = 30 * time.Second
	recheckInterval = 5 * time.Second
)

// metacontrollerDetector detects Metacontrollers in the same cluster. Two controllers of the
// same objects would fight, so a metacontroller.k8s.io controller runs here only if no
// Metacontroller runs it.
type metacontrollerDetector struct {
	find func(context.Context) ([]otherMetacontroller, error)
	now  func() time.Time

	mu        sync.Mutex
	checkedAt time.Time
	found     []otherMetacontroller
	// findErr is why Setpoint may not look for them; nil if it may.
	findErr error
}

// get returns the Metacontrollers, from a recent result if there is one.
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

// refreshChanged detects them again and reports whether anything changed.
func (d *metacontrollerDetector) refreshChanged(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := fmt.Sprint(d.found, d.findErr)
	return d.refresh(ctx) == nil && before != fmt.Sprint(d.found, d.findErr)
}

// refresh detects them. A Forbidden error is stored as a result; any other makes the next
// call try again. The caller holds the lock.
func (d *metacontrollerDetector) refresh(ctx context.Context) error {
	found, err := d.find(ctx)
	if err != nil && !isForbiddenOrNotFound(err) {
		return err
	}
	d.checkedAt, d.found, d.findErr = d.now(), found, err
	return nil
}

// conflict refuses a controller object that a Metacontroller runs. The note says what could
// not be checked.
func (d *metacontrollerDetector) conflict(ctx context.Context, declared *object.Object) (note string, err error) {
	if plan.Annotation(declared, setpoint.AnnotationIgnoreMetacontroller) == "true" {
		return "", nil
	}
	found, err := d.get(ctx)
	switch {
	case isForbiddenOrNotFound(err):
		return fmt.Sprintf("cannot check whether a Metacontroller runs in this cluster (%v); make sure that none does", err), nil
	case err != nil:
		return "", fmt.Errorf("detect Metacontroller in this cluster: %w", err)
	}
	i := slices.IndexFunc(found, func(one otherMetacontroller) bool {
		return one.targets == nil || one.targets.Matches(declared.Labels())
	})
	if i < 0 {
		return "", nil
	}
	return "", &compile.Refusal{Reason: setpoint.ReasonConflictingMetacontroller, Err: fmt.Errorf(
		"a Metacontroller runs in this cluster (%s), and both would reconcile the same objects: scale it to 0, and this controller starts; "+
			"or, if it ignores this object, set the annotation %s: \"true\"", found[i].name, setpoint.AnnotationIgnoreMetacontroller)}
}

// watchMetacontrollers detects Metacontrollers periodically while there are controllers that
// they could run, and enqueues these when the result changes.
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
