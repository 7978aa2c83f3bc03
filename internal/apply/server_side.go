package apply

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// serverSideApply applies the desired fields. If the server rejects them because of fields that are not
// desired, an update removes those before another apply. It also removes what the response has as null,
// which an apply can do for some fields only.
func (w *Writer) serverSideApply(ctx context.Context, a plan.Action) (*object.Object, error) {
	if a.Want != nil {
		return w.applyWithoutLeftovers(ctx, a, nil)
	}
	send := w.takeOverAndApply // It first takes over the fields of previous managers.
	if a.TakeOver != nil && a.TakeOver.OnlyLeftovers {
		send = w.applyThenTakeOver
	}
	stored, err := send(ctx, a)
	if apierrors.IsInvalid(err) {
		return w.applyWithoutLeftovers(ctx, a, err)
	}
	return stored, err
}

func (w *Writer) applyWithoutLeftovers(ctx context.Context, a plan.Action, rejected error) (*object.Object, error) {
	stored, err := w.updateWithoutLeftovers(ctx, a, rejected)
	if err != nil || w.options.DryRun {
		return stored, err
	}
	a.Before = stored
	if a.After, err = plan.WithoutNulls(a.After); err != nil {
		return nil, err
	}
	if a.TakeOver == nil {
		a.TakeOver = ownFields(managerOr(a.Manager))
	}
	return w.takeOverAndApply(ctx, a)
}

func (w *Writer) takeOverAndApply(ctx context.Context, a plan.Action) (*object.Object, error) {
	if w.simulatesTakeOver(a) {
		return w.simulateTakeOver(ctx, a)
	}
	if _, err := w.takeOver(ctx, a); err != nil {
		return nil, err
	}
	return w.send(ctx, applied(a, a.After))
}

// applyThenTakeOver takes over created fields only if the apply left some that should be gone.
func (w *Writer) applyThenTakeOver(ctx context.Context, a plan.Action) (*object.Object, error) {
	stored, err := w.send(ctx, applied(a, a.After))
	if err != nil {
		return nil, err
	}
	lingers, err := plan.HasLeftovers(a.After, stored)
	if err != nil || !lingers {
		return stored, err
	}
	return w.takeOverAndApply(ctx, a)
}

// ownFields takes over the fields that a manager owns by updates.
func ownFields(manager string) *plan.TakeOver {
	return &plan.TakeOver{From: []plan.PreviousManager{{Name: manager}}}
}
