package apply

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// serverSideApply applies the desired fields. It first takes over the fields of former managers.
func (w *Writer) serverSideApply(ctx context.Context, a plan.Action) (*object.Object, error) {
	if a.TakeOver != nil && a.TakeOver.OnlyLeftovers {
		return w.applyThenTakeOver(ctx, a)
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
	return w.send(ctx, a.Resource, "apply", w.applyRequest(a, a.After))
}

// applyThenTakeOver takes over created fields only if the apply left some that should be gone.
func (w *Writer) applyThenTakeOver(ctx context.Context, a plan.Action) (*object.Object, error) {
	stored, err := w.send(ctx, a.Resource, "apply", w.applyRequest(a, a.After))
	if err != nil {
		return nil, err
	}
	lingers, err := plan.HasLeftovers(a.After, stored)
	if err != nil || !lingers {
		return stored, err
	}
	return w.takeOverAndApply(ctx, a)
}

// applyRequest forces conflicts: other managers' changes are drift.
func (w *Writer) applyRequest(a plan.Action, o *object.Object) *rest.Request {
	return w.forceApplyRequest(a.Resource, o, a.Manager)
}
