package apply

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// apply carries out a server-side apply, and before it what it takes for the
// fields of former managers to be known as this one's.
func (w *Writer) apply(ctx context.Context, a plan.Action) (*object.Object, error) {
	if a.TakeOver != nil && a.TakeOver.Late {
		return w.applyAndLook(ctx, a)
	}
	return w.takeOverAndApply(ctx, a)
}

func (w *Writer) takeOverAndApply(ctx context.Context, a plan.Action) (*object.Object, error) {
	if w.foresees(a) {
		return w.foresee(ctx, a)
	}
	if _, err := w.takeOver(ctx, a); err != nil {
		return nil, err
	}
	return w.send(ctx, a.Resource, "apply", w.applying(a, a.After))
}

// applyAndLook takes over what was created only if the apply left some of it there
// that should have gone.
func (w *Writer) applyAndLook(ctx context.Context, a plan.Action) (*object.Object, error) {
	stored, err := w.send(ctx, a.Resource, "apply", w.applying(a, a.After))
	if err != nil {
		return nil, err
	}
	lingers, err := plan.Lingers(a.After, stored)
	if err != nil || !lingers {
		return stored, err
	}
	return w.takeOverAndApply(ctx, a)
}

// applying is a request for a server-side apply. The fields are this manager's
// whoever had them: a conflict is drift, and drift is corrected.
func (w *Writer) applying(a plan.Action, o *object.Object) *rest.Request {
	return w.forced(a.Resource, o, a.Manager)
}
