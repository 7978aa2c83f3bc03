package compose

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// errRelatedPending ends a run that has to wait for watches which have been opened for
// it. They wake it.
var errRelatedPending = errors.New("related objects are being listed")

// relate is the step that finds out which objects the hook wants to be shown
// beside the parent and its children. The customize hook is asked again when
// what it was shown of the parent has changed.
func (r *run) relate(ctx context.Context) error {
	if r.program.Customize == nil {
		return nil
	}
	if r.memory.customizedParent != r.visibleParent().Digest() {
		if err := r.customize(ctx); err != nil {
			return err
		}
	}
	if err := r.relatedListed(); err != nil {
		return err
	}
	r.relatedObjects = r.related.Snapshot(r.item.Key)
	return nil
}

// relatedListed says whether all related objects are known, and if not, why.
func (r *run) relatedListed() error {
	pending := r.related.Pending(r.item.Key)
	for _, watch := range pending {
		if watch.Err != nil {
			return failure.WithReason(ReasonRelatedMissing, fmt.Errorf("related objects: %w", watch.Err))
		}
	}
	if len(pending) > 0 {
		return errRelatedPending
	}
	return nil
}

func (r *run) customize(ctx context.Context) error {
	r.memory.customizedParent = 0
	request, began := &hook.CustomizeRequest{Controller: r.program.Object, Parent: r.program.objectJSON(r.visibleParent())}, r.record.Now()
	response, err := withRecover(r, "customize", func() (*hook.CustomizeResponse, error) {
		return r.program.Customize.Customize(ctx, request)
	})
	r.record.Called(began, record.Call{
		Name: "customize", Request: record.Request{Customize: request}, Response: record.Response{Customize: response}, Err: err,
	})
	if err != nil {
		return hookFailure("customize", err)
	}
	err = r.related.Set(ctx, r.item.Key, response.Related)
	if wrong, ok := errors.AsType[*related.RuleError](err); ok && wrong.Err == nil {
		return hookFailure("customize", &hook.MalformedError{Path: wrong.Path, Err: errors.New(wrong.Problem)})
	}
	if err != nil {
		return failure.WithReason(ReasonRelatedMissing, fmt.Errorf("related objects: %w", err))
	}
	r.memory.customizedParent = r.visibleParent().Digest()
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
