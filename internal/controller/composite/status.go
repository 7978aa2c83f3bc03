package composite

import (
	"context"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
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

// visible returns the parent as hooks get it: the stored object without the conditions that
// Setpoint sets.
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

// setConditions sets Setpoint's conditions in the status of the parent.
func (s *parentStatus) setConditions(now plan.StatusReport) error {
	if !s.program.Conditions || s.program.statusOwner(s.Stored) != "" {
		return nil
	}
	now.Message = s.Secrets.Text(now.Message)
	said, err := plan.SetOwnConditions(s.wanted, s.Stored, now, s.memory.hookConditions, s.Tools.Now())
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, err)
	}
	s.wanted = said
	return nil
}

// overlay returns the parent with a response applied. If another controller stores the status, it ignores that of the
// response and adds a warning.
func (s *parentStatus) overlay(response *hook.Response) (*object.Object, error) {
	owner := s.program.statusOwner(s.Stored)
	if owner == "" {
		overlaid, err := s.planner.OverlayResponse(s.wanted, s.program.Parent, response, s.Tools.Now())
		if err != nil {
			return nil, &hook.MalformedError{Path: "status", Err: err}
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

// store stores the status of the latest response, and the labels and annotations of a
// decorator, if they changed.
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
	began := s.Record.Now()
	stored, err := s.writer().Update(ctx, s.program.Parent, s.wanted, apply.StatusPart)
	s.Record.Wrote(began, s.program.Parent, record.Write{Part: "status", Before: s.Stored, After: stored, Err: err})
	if err != nil {
		return s.dropRejected(updateError("store the status of", s.Stored, err))
	}
	s.ObserveWrite(s.program.Parent, stored)
	s.memory.hasWritten = true
	s.noteStatus(s.wanted, stored)
	s.Stored, s.wanted, s.planner.Parent = stored, stored, stored
	return nil
}

// dropRejected drops the changes of a rejected write of the parent, so that they are not sent
// again. It returns the error.
func (s *parentStatus) dropRejected(err error) error {
	s.memory.syncedInput, s.wanted = 0, s.Stored
	return err
}

// decorate writes the labels and annotations that a decorator sets.
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
	known.prunedAt = s.Tools.Now()
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

// isStatusStored reports whether this status was sent before and what the server made of it is
// still stored.
func (s *parentStatus) isStatusStored() bool {
	known, again := s.memory.status, s.retryPruned()
	if !again.IsZero() && (s.Item.Causes.Has(queue.ReconcileRequested) || !again.After(s.Tools.Now())) {
		return false
	}
	return known.wanted != 0 && known.wanted == statusDigest(s.wanted) && known.stored == statusDigest(s.Stored)
}

func statusDigest(o *object.Object) uint64 { return object.DigestOf(o.Field("status")) }

func (s *parentStatus) removeFinalizer(ctx context.Context) error {
	ours := func(name string) bool { return name == s.program.Finalizer }
	return s.storeFinalizers(ctx, "remove the finalizer from", slices.DeleteFunc(s.Stored.Finalizers(), ours))
}

// storeFinalizers stores the parent with other finalizers.
func (s *parentStatus) storeFinalizers(ctx context.Context, what string, names []string) error {
	edited, err := withFinalizers(s.Stored, names)
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, err)
	}
	if !s.StillExists() {
		return controller.ErrConflict
	}
	return s.storeParent(ctx, what, edited)
}

func withFinalizers(o *object.Object, names []string) (*object.Object, error) {
	if len(names) == 0 {
		return o.With(nil, "metadata", "finalizers")
	}
	return o.WithValue(names, "metadata", "finalizers")
}

// storeParent updates the parent without its status.
func (s *parentStatus) storeParent(ctx context.Context, what string, edited *object.Object) error {
	stored, err := s.update(ctx, s.program.Parent, what, s.Stored, edited)
	if err != nil {
		return s.dropRejected(err)
	}
	return s.setStored(stored)
}

// setStored makes an object the stored parent and keeps the status that is not stored yet.
func (s *parentStatus) setStored(stored *object.Object) error {
	unstoredStatus := s.wanted.Field("status")
	pending := s.wanted != s.Stored && object.DigestOf(unstoredStatus) != statusDigest(s.Stored)
	s.Stored, s.wanted, s.planner.Parent = stored, stored, stored
	if !pending {
		return nil
	}
	overlaid, err := stored.With(unstoredStatus, "status")
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, err)
	}
	s.wanted = overlaid
	return nil
}
