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
	if a.Try == "" {
		return w.Delete(ctx, a.Resource, a.Before)
	}
	tried, err := w.try(ctx, a)
	switch {
	case err != nil:
		return nil, err
	case tried == nil:
		return w.Delete(ctx, a.Resource, a.Before)
	case bytes.Equal(annotations(a.Before), annotations(tried)) || w.options.DryRun:
		return tried, nil
	}
	// It differs in what is remembered.
	return w.send(ctx, a.Resource, string(a.Try), w.trying(a, a.After))
}

func annotations(o *object.Object) []byte { return o.Field("metadata", "annotations") }

// try returns what the child would be if what is desired was applied to it, or
// nil if it would become another or cannot.
func (w *Writer) try(ctx context.Context, a plan.Action) (*object.Object, error) {
	version := a.Before.ResourceVersion()
	if !w.foresees(a) {
		var err error
		if version, err = w.takeOver(ctx, a); err != nil {
			return nil, err
		}
	}
	tried, err := w.attempt(ctx, a, version)
	if refused(err) {
		return nil, w.creatable(ctx, a)
	}
	if err != nil {
		return nil, err
	}
	if same, err := plan.Same(a.Before, tried); err != nil || !same {
		return nil, err
	}
	return tried, nil
}

// attempt asks what would come of what is desired, for the child of this version.
func (w *Writer) attempt(ctx context.Context, a plan.Action, version string) (*object.Object, error) {
	if w.foresees(a) {
		return w.foresee(ctx, a)
	}
	bound, err := a.After.With(strconv.AppendQuote(nil, version), "metadata", "resourceVersion")
	if err != nil {
		return nil, err
	}
	return w.send(ctx, a.Resource, "try", w.trial(w.trying(a, bound)))
}

func (w *Writer) trying(a plan.Action, o *object.Object) *rest.Request {
	if a.Try == plan.Apply {
		return w.applying(a, o)
	}
	return w.putting(a.Resource, o)
}

// refused says that an object cannot become what it is to be: the field is
// immutable, an admission webhook objects, or updates are not allowed at all.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// creatable asks the server whether it would store what is desired as a new
// object. One that would answers that there is an object of its name.
func (w *Writer) creatable(ctx context.Context, a plan.Action) error {
	fresh, err := a.After.Edited(object.Edit{Path: []string{"metadata", "uid"}}, object.Edit{Path: []string{"metadata", "resourceVersion"}})
	if err != nil {
		return err
	}
	_, err = w.send(ctx, a.Resource, "try", w.trial(w.posting(a.Resource, fresh, a.Manager)))
	if err == nil || Exists(err) {
		return nil
	}
	return fmt.Errorf("left as it is, since what is desired could not be created: %w", err)
}
