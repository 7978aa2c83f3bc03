package composite

import (
	"context"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// parentStatus is what a run makes of its parent: status, conditions, finalizers, and what decorators set.
type parentStatus struct {
	*writes

	// wanted is the stored parent with the latest response applied.
	wanted *object.Object
	// bare caches visible for a stored parent.
	bare struct{ of, as *object.Object }
}

// visible returns the parent as hooks get it: the stored object without the conditions that Setpoint sets.
func (s *parentStatus) visible() *object.Object {
	if !s.program.Conditions {
		return s.Stored
	}
	if s.bare.of != s.Stored {
		bare, err := plan.WithoutOwnConditions(s.Stored, s.memory.hookConditions)
		if err != nil {
			bare = s.Stored // The object was parsed before, so editing it cannot fail.
		}
		s.bare.of, s.bare.as = s.Stored, bare
	}
	return s.bare.as
}

func (s *parentStatus) setConditions(now plan.StatusReport) error {
	if !s.program.Conditions || s.program.statusOwner(s.Stored) != "" {
		return nil
	}
	now.Message = s.Secrets.Text(now.Message)
	said, err := plan.SetOwnConditions(s.wanted, s.Stored, now, s.memory.hookConditions, s.Now())
	if err == nil {
		s.wanted = said
	}
	return err
}

// report stores the status of the parent with Setpoint's conditions.
func (s *parentStatus) report(ctx context.Context, now plan.StatusReport) error {
	if err := s.setConditions(now); err != nil {
		return err
	}
	return s.store(ctx)
}

// overlay returns the parent with a response applied, but for a status that another controller stores, with a warning.
func (s *parentStatus) overlay(response *hook.Response) (*object.Object, error) {
	owner := s.program.statusOwner(s.Stored)
	if owner == "" {
		overlaid, err := s.planner.OverlayResponse(s.wanted, s.program.Parent, response, s.Now())
		if err != nil {
			return nil, hookFailure(hookName(s.Phase), &hook.MalformedError{Path: "status", Err: err})
		}
		return overlaid, nil
	}
	if hasStatus(response) {
		response.Events = append(slices.Clone(response.Events), hook.Event{Type: controller.Warning, Reason: ReasonStatusIgnored,
			Message: "the status in the response of " + s.program.Name + " is ignored: " + owner +
				" takes precedence for this object and stores its status"})
	}
	return s.wanted, nil
}

// store stores the status of the latest response, and the labels and annotations of a decorator, if they changed.
func (s *parentStatus) store(ctx context.Context) error {
	if s.wanted == s.Stored || !s.StillExists() {
		return nil
	}
	if s.decorationChanged() {
		if err := s.decorate(ctx); err != nil {
			return err
		}
	}
	if s.wanted == s.Stored || s.isStatusStored() || !s.program.Parent.Status {
		return nil
	}
	stored, err := s.update(ctx, s.program.Parent, "store the status of",
		record.Write{Part: apply.StatusPart, Before: s.Stored, After: s.wanted})
	if err != nil {
		return s.dropRejected(err)
	}
	s.memory.hasWritten = true
	s.noteStatus(s.wanted, stored)
	s.Stored, s.wanted, s.planner.Parent = stored, stored, stored
	return nil
}

// dropRejected drops the changes of a rejected write of the parent, so that they are not sent again.
func (s *parentStatus) dropRejected(err error) error {
	s.memory.syncedInput, s.wanted = 0, s.Stored
	return err
}

func (s *parentStatus) decorate(ctx context.Context) error {
	wanted := s.wanted
	s.ownWrites.note(s.Item.Key, s.wanted)
	if err := s.storeParent(ctx, "decorate", s.wanted); err != nil {
		return err
	}
	s.ownWrites.note(s.Item.Key, s.Stored)
	s.memory.hasWritten = true
	if !s.program.Parent.Status {
		s.noteStatus(wanted, s.Stored)
	}
	return nil
}

// noteStatus notes what the server made of a status, and reports a field that it did not store.
func (s *parentStatus) noteStatus(wanted, stored *object.Object) {
	known := &s.memory.status
	known.wanted, known.stored, known.prunedAt = statusDigest(wanted), statusDigest(stored), time.Time{}
	if known.wanted == known.stored {
		return
	}
	want, _ := object.Decode(wanted.Field("status"))
	have, _ := object.Decode(stored.Field("status"))
	if missing, _ := object.Missing(want, have); missing == nil {
		return
	}
	known.prunedAt = s.Now()
	_, field := object.Missing(s.returnedStatus(wanted), have)
	s.ReportPruned(field)
}

// returnedStatus is a status without what Setpoint itself adds to that of a response: no author can leave that out.
func (s *parentStatus) returnedStatus(wanted *object.Object) map[string]any {
	if bare, err := plan.WithoutOwnConditions(wanted, s.memory.hookConditions); err == nil && s.program.Conditions {
		wanted = bare
	}
	status, _ := object.Decode(wanted.Field("status"))
	if s.program.Parent.Custom && !s.program.isDecorator() {
		delete(status, plan.FieldObservedGeneration)
	}
	return status
}

// retryPruned returns when to write a status again of which the server did not store a field; zero if it stored all.
func (s *parentStatus) retryPruned() time.Time {
	if s.memory.status.prunedAt.IsZero() {
		return time.Time{}
	}
	return s.memory.status.prunedAt.Add(controller.PrunedRetry)
}

// decorationChanged reports whether more than the status subresource has to be written.
func (s *parentStatus) decorationChanged() bool {
	if !s.program.isDecorator() {
		return false
	}
	same := func(field ...string) bool {
		return object.DigestOf(s.wanted.Field(field...)) == object.DigestOf(s.Stored.Field(field...))
	}
	return !same("metadata", "labels") || !same("metadata", "annotations") ||
		!s.program.Parent.Status && !same("status") && !s.isStatusStored()
}

// isStatusStored reports whether this status was sent before and what the server made of it is still stored.
func (s *parentStatus) isStatusStored() bool {
	known, again := s.memory.status, s.retryPruned()
	if !again.IsZero() && (s.Item.Causes.Has(queue.ReconcileRequested) || !again.After(s.Now())) {
		return false
	}
	return known.wanted != 0 && known.wanted == statusDigest(s.wanted) && known.stored == statusDigest(s.Stored)
}

func statusDigest(o *object.Object) uint64 { return object.DigestOf(o.Field("status")) }

func (s *parentStatus) removeFinalizer(ctx context.Context) error {
	ours := func(name string) bool { return name == s.program.Finalizer }
	return s.storeFinalizers(ctx, "remove the finalizer from", slices.DeleteFunc(s.Stored.Finalizers(), ours))
}

func (s *parentStatus) storeFinalizers(ctx context.Context, what string, names []string) error {
	edited, err := s.Stored.With(nil, "metadata", "finalizers")
	if len(names) > 0 {
		edited, err = s.Stored.WithValue(names, "metadata", "finalizers")
	}
	switch {
	case err != nil:
		return err
	case !s.StillExists():
		return controller.ErrConflict
	}
	return s.storeParent(ctx, what, edited)
}

// storeParent updates the parent without its status, and keeps a status that is not stored yet.
func (s *parentStatus) storeParent(ctx context.Context, what string, edited *object.Object) error {
	stored, err := s.update(ctx, s.program.Parent, what, record.Write{Before: s.Stored, After: edited})
	if err != nil {
		return s.dropRejected(err)
	}
	status, pending := s.wanted.Field("status"), s.wanted != s.Stored && statusDigest(s.wanted) != statusDigest(s.Stored)
	s.Stored, s.wanted, s.planner.Parent = stored, stored, stored
	if !pending {
		return nil
	}
	overlaid, err := stored.With(status, "status")
	if err == nil {
		s.wanted = overlaid
	}
	return err
}
