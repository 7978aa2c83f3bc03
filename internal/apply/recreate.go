package apply

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// recreate deletes a child that differs from what is desired, unless that turns
// out to make no difference; then it is carried out. A child is deleted neither
// because the server writes a quantity in another way, nor for the sake of what
// the server would refuse.
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
	case bytes.Equal(annotations(a.Before), annotations(simulated)) || w.options.DryRun:
		return simulated, nil
	}
	// It differs in what is remembered.
	return w.send(ctx, a.Resource, string(a.DryRunVerb), w.dryRunRequest(a, a.After))
}

func annotations(o *object.Object) []byte { return o.Field("metadata", "annotations") }

// dryRunUpdate returns what the child would be if what is desired was applied to it, or
// nil if it would become another or cannot.
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

// sendDryRun asks what would come of what is desired, for the child of this version.
func (w *Writer) sendDryRun(ctx context.Context, a plan.Action, version string) (*object.Object, error) {
	if w.simulatesTakeOver(a) {
		return w.simulateTakeOver(ctx, a)
	}
	bound, err := a.After.With(strconv.AppendQuote(nil, version), "metadata", "resourceVersion")
	if err != nil {
		return nil, err
	}
	return w.send(ctx, a.Resource, "try", w.asDryRun(w.dryRunRequest(a, bound)))
}

func (w *Writer) dryRunRequest(a plan.Action, o *object.Object) *rest.Request {
	if a.DryRunVerb == plan.Apply {
		return w.applyRequest(a, o)
	}
	return w.updateRequest(a.Resource, o)
}

// isRejected says that an object cannot become what it is to be: the field is
// immutable, an admission webhook objects, or updates are not allowed at all.
func isRejected(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// checkCreatable asks the server whether it would store what is desired as a new
// object. One that would answers that there is an object of its name.
func (w *Writer) checkCreatable(ctx context.Context, a plan.Action) error {
	fresh, err := a.After.Edited(object.Edit{Path: []string{"metadata", "uid"}}, object.Edit{Path: []string{"metadata", "resourceVersion"}})
	if err != nil {
		return err
	}
	_, err = w.send(ctx, a.Resource, "try", w.asDryRun(w.createRequest(a.Resource, fresh, a.Manager)))
	if err == nil || AlreadyExists(err) {
		return nil
	}
	return fmt.Errorf("left as it is, since what is desired could not be created: %w", err)
}
