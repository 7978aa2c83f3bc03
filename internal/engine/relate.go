package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// errWaiting ends a run that has to wait for watches which have been opened for
// it. They wake it.
var errWaiting = errors.New("related objects are being listed")

// relate is the step that finds out which objects the hook wants to be shown
// beside the parent and its children. The customize hook is asked again when
// what it was shown of the parent has changed.
func (r *run) relate(ctx context.Context) error {
	if r.program.Customize == nil {
		return nil
	}
	if r.memory.customized != r.shownParent().Digest() {
		if err := r.customize(ctx); err != nil {
			return err
		}
	}
	if err := r.listed(); err != nil {
		return err
	}
	r.shown = r.related.Shown(r.item.Key)
	return nil
}

// listed says whether all related objects are known, and if not, why.
func (r *run) listed() error {
	lacking := r.related.Lacking(r.item.Key)
	for _, watch := range lacking {
		if watch.Err != nil {
			return failure.New(ReasonRelatedMissing, fmt.Errorf("related objects: %w", watch.Err))
		}
	}
	if len(lacking) > 0 {
		return errWaiting
	}
	return nil
}

func (r *run) customize(ctx context.Context) error {
	r.memory.customized = 0
	request, began := &hook.CustomizeRequest{Controller: r.program.Object, Parent: r.program.show(r.shownParent())}, r.account.Now()
	reply, err := recovered(r, "customize", func() (*hook.CustomizeResponse, error) {
		return r.program.Customize.Customize(ctx, request)
	})
	r.account.Asked(began, trace.Ask{
		What: "customize", Question: trace.Question{Customize: request}, Answer: trace.Answer{Customize: reply}, Err: err,
	})
	if err != nil {
		return hookFailure("customize", err)
	}
	err = r.related.Set(ctx, r.item.Key, reply.Related)
	if wrong, ok := errors.AsType[*related.RuleError](err); ok && wrong.Err == nil {
		return hookFailure("customize", &hook.MalformedError{Path: wrong.Path, Err: errors.New(wrong.Problem)})
	}
	if err != nil {
		return failure.New(ReasonRelatedMissing, fmt.Errorf("related objects: %w", err))
	}
	r.memory.customized = r.shownParent().Digest()
	return nil
}

// relatedChanged queues a parent one of whose related objects changed; nil is
// told when a watch it waited for has listed what there is.
func (c *Controller) relatedChanged(parent queue.Key, changed *object.Object) {
	cause := queue.Cause{Kind: queue.RelatedChanged}
	if changed != nil {
		cause.Detail, cause.Object = changed.Kind(), keyOf(changed)
	}
	c.queue.Add(parent, cause)
}
