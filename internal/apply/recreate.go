package apply

import (
	"bytes"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// recreate deletes a child that differs from the desired one. If a dry run shows no difference, it applies the desired
// one instead. It never deletes for the notation of a quantity, or for a desired one that the server would reject.
func (w *Writer) recreate(ctx context.Context, a plan.Action) (*object.Object, error) {
	if a.DryRunVerb == "" {
		return w.Delete(ctx, a.Resource, a.Before)
	}
	simulated, err := w.dryRunUpdate(ctx, a)
	switch {
	case err != nil:
		return nil, err
	case simulated == nil:
		return w.Delete(ctx, a.Resource, a.Before)
	case bytes.Equal(annotationsOf(a.Before), annotationsOf(simulated)) || w.options.DryRun:
		return simulated, nil
	}
	// Only the last applied configuration differs.
	return w.send(ctx, inPlace(a, a.After))
}

func annotationsOf(o *object.Object) []byte { return o.Field("metadata", "annotations") }

// dryRunUpdate returns the child after a dry run of the update; nil if it would differ, or cannot be updated.
func (w *Writer) dryRunUpdate(ctx context.Context, a plan.Action) (*object.Object, error) {
	version := a.Before.ResourceVersion()
	if !w.simulatesTakeOver(a) {
		var err error
		if version, err = w.takeOver(ctx, a); err != nil {
			return nil, err
		}
	}
	simulated, err := w.sendDryRun(ctx, a, version)
	if isRejected(err) {
		return nil, w.checkCreatable(ctx, a)
	}
	if err != nil {
		return nil, err
	}
	if same, err := plan.Same(a.Before, simulated); err != nil || !same {
		return nil, err
	}
	return simulated, nil
}

// sendDryRun sends the desired object as a dry run for this resource version.
func (w *Writer) sendDryRun(ctx context.Context, a plan.Action, version string) (*object.Object, error) {
	if w.simulatesTakeOver(a) {
		return w.simulateTakeOver(ctx, a)
	}
	bound, err := a.After.WithValue(version, "metadata", "resourceVersion")
	if err != nil {
		return nil, err
	}
	return w.try(ctx, inPlace(a, bound))
}

// isRejected reports whether the server rejects an update: for an immutable field, by admission, or as unsupported.
func isRejected(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// checkCreatable checks by a dry run that the desired object could be created. AlreadyExists means that it could.
func (w *Writer) checkCreatable(ctx context.Context, a plan.Action) error {
	desired := a.After
	if a.Want != nil {
		// What was merged may have fields that exclude each other, and that go with the child.
		var err error
		if desired, err = plan.WithoutNulls(a.Want); err != nil {
			return err
		}
	}
	fresh, err := desired.Edited(object.Edit{Path: []string{"metadata", "uid"}}, object.Edit{Path: []string{"metadata", "resourceVersion"}})
	if err != nil {
		return err
	}
	_, err = w.try(ctx, create(a.Resource, fresh, a.Manager))
	if err == nil || AlreadyExists(err) {
		return nil
	}
	return fmt.Errorf("not deleted, because the desired object could not be created: %w", err)
}
