package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// release removes the finalizers that controllers leave on their parents: of a
// controller object that is being deleted, of one that has no finalize hook any
// more, and of kinds that it names no more. What remains to be done is written in
// the objects, so that the next leader goes on where this one stopped.
func (f *fleet) release(ctx context.Context) {
	for _, kind := range f.kinds {
		for o := range kind.view.All() {
			f.considerRelease(queue.Key{Namespace: kind.Name, Name: o.Name()}, o)
		}
	}
	f.releases.Work(ctx, func(ctx context.Context, item queue.Item) queue.Outcome {
		if err := f.releaseFor(ctx, item.Key); err != nil && ctx.Err() == nil {
			f.tellUnreleased(item.Key, err)
			return queue.Retry()
		}
		return queue.Settled()
	})
}

// considerRelease queues an object of which there may be something to release.
func (f *fleet) considerRelease(key queue.Key, o *object.Object) {
	if held(o) {
		f.releases.Add(key, queue.Cause{Kind: queue.ParentChanged})
	}
}

func held(o *object.Object) bool {
	return slices.Contains(o.Finalizers(), setpoint.FinalizerReleaseParents)
}

// releaseFor does it for one controller object. It does nothing as long as
// something runs that would put the finalizers on again: when that has ended, it
// is called anew.
func (f *fleet) releaseFor(ctx context.Context, key queue.Key) error {
	kind := f.kinds[key.Namespace]
	o := kind.view.Get("", key.Name)
	if o == nil || !held(o) {
		return nil
	}
	foot := kind.Footprint(o)
	gone := foot.Finalized(formerStatus(o).Finalizes, o.Deleting())
	for _, resource := range gone {
		if f.finalizes(key, resource) {
			return nil
		}
		if err := f.host.removeFinalizer(ctx, resource, foot.Finalizer); err != nil {
			return fmt.Errorf("remove the finalizer %s from %s: %w", foot.Finalizer, resource, err)
		}
	}
	err := f.storeReleased(ctx, key, o, gone)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// finalizes says whether what runs for an object puts its finalizer on a kind.
func (f *fleet) finalizes(key queue.Key, resource compile.Named) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[key]
	return m != nil && m.running != nil && m.running.Finalizes() && resource.In(m.running.resources())
}

// storeReleased notes which kinds carry the finalizer no more, and lets the
// controller object go if there is none left that does.
func (f *fleet) storeReleased(ctx context.Context, key queue.Key, o *object.Object, gone []compile.Named) error {
	kind := f.kinds[key.Namespace]
	before := formerStatus(o).Finalizes
	after := slices.DeleteFunc(slices.Clone(before), func(text string) bool { return compile.ParseNamed(text).In(gone) })
	if len(after) != len(before) {
		if err := f.storeFinalizes(ctx, key, o, after); err != nil {
			return err
		}
		o = kind.view.Get("", key.Name)
	}
	if o == nil || kind.Footprint(o).Finalizes && !o.Deleting() {
		return nil
	}
	f.host.log.Info("finalizers released", "controller", key.String(), "kinds", len(gone))
	others := slices.DeleteFunc(o.Finalizers(), func(name string) bool { return name == setpoint.FinalizerReleaseParents })
	return f.storeFinalizers(ctx, key, o, others)
}

// tellUnreleased says why parents are still held.
func (f *fleet) tellUnreleased(key queue.Key, err error) {
	if errors.Is(err, context.Canceled) || apierrors.IsConflict(err) {
		return
	}
	f.host.log.Warn("finalizers not released; trying again", "controller", key.String(), "error", err.Error())
	f.mu.Lock()
	m := f.members[key]
	if m != nil && m.leaving != "" {
		m.leaving = err.Error()
	}
	f.mu.Unlock()
	if o := f.kinds[key.Namespace].view.Get("", key.Name); o != nil {
		f.host.events.Tell(o, hook.Event{Type: "Warning", Reason: setpoint.ReasonReleasing, Message: err.Error()})
	}
}
