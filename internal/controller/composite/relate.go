package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// relatedPollInterval is how often the lists of related objects are looked at outside of runs.
const relatedPollInterval = 20 * time.Millisecond

// errRelatedPending ends a run that waits for new watches of related objects. They enqueue the
// parent.
var errRelatedPending = errors.New("related objects are being listed")

// relate finds the related objects. It calls the customize hook again if the visible parent has
// changed.
func (r *run) relate(ctx context.Context) error {
	if r.related == nil {
		return nil
	}
	r.seeCached()
	if r.Phase == controller.PhaseFinalizing {
		return r.relateFinalizing(ctx)
	}
	if r.memory.customizedParent != r.customizeDigest() {
		if err := r.customize(ctx); err != nil {
			return err
		}
	}
	if err := r.checkRelatedReads(ctx, r.user(), r.related.Reads(r.Item.Key)); err != nil {
		return err
	}
	if err := r.relatedListed(); err != nil {
		return err
	}
	r.relatedObjects = r.related.Snapshot(r.Item.Key)
	return nil
}

// seeCached adds the values of the Secrets that the latest response was about: customize may fail on a copy of one.
func (r *run) seeCached() {
	children := r.children
	r.Secrets.See(false, func(visit func(json.RawMessage)) {
		for _, child := range slices.Concat(children...) {
			visit(child.JSON())
		}
		for _, group := range r.related.Snapshot(r.Item.Key).Groups {
			for i := range group.Objects {
				visit(group.Objects[i].Object)
			}
		}
	})
}

// Relate calls the customize hook for a parent, without a run: events of its related objects enqueue it
// from then on.
func (c *Controller) Relate(ctx context.Context, key queue.Key) error {
	parent := c.Get(key)
	if parent == nil || c.related == nil || c.PhaseOf(parent) == controller.PhaseIgnored {
		return nil
	}
	of, memory, _ := c.NewRun(queue.Item{Key: key}, parent)
	return of.Secrets.Error(c.newRun(of, memory).relate(ctx))
}

// relatedListed returns errRelatedPending, or the error of a watch, until all related objects are
// listed.
func (r *run) relatedListed() error {
	pending := r.related.Pending(r.Item.Key)
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

// customizeDigest identifies what the customize hook is called with, and its version.
func (r *run) customizeDigest() uint64 {
	digest := r.visibleParent().Digest()
	if r.program.Former == nil {
		return digest
	}
	return max(maphash.Comparable(inputSeed, struct {
		version string
		parent  uint64
	}{r.logic.Version, digest}), 1)
}

// customize calls the customize hook and sets what it selects.
func (r *run) customize(ctx context.Context) error {
	rules, err := r.callCustomize(ctx)
	if err != nil {
		return err
	}
	if err := r.setRelated(ctx, rules); err != nil {
		return relatedError(err)
	}
	r.memory.customizedParent = r.customizeDigest()
	return nil
}

// callCustomize returns what the customize hook selects; nothing if only the other version has one.
func (r *run) callCustomize(ctx context.Context) ([]hook.RelatedRule, error) {
	r.memory.customizedParent = 0
	if r.logic.Customize == nil {
		return nil, nil
	}
	request, began := &hook.CustomizeRequest{Controller: r.program.Object, Parent: r.program.objectJSON(r.visibleParent())}, r.Record.Now()
	r.See(&record.Request{Customize: request}, &record.Response{})
	ctx, output := r.withOutput(ctx)
	response, err := withRecover(r, "customize", func() (*hook.CustomizeResponse, error) {
		return r.logic.Customize.Customize(ctx, request)
	})
	r.Record.Called(began, record.Call{
		Name: "customize", Version: r.logic.Version, Request: record.Request{Customize: request},
		Response: record.Response{Customize: response}, Err: err, Output: output,
	})
	if err != nil {
		return nil, hookFailure("customize", r.program.explainMissing(err))
	}
	return response.Related, nil
}

// relatedError adds the reason to an error of what the customize hook selects.
func relatedError(err error) error {
	if errors.Is(err, identity.ErrForbidden) {
		return err
	}
	if wrong, ok := errors.AsType[*related.RuleError](err); ok && wrong.Err == nil {
		return hookFailure("customize", &hook.MalformedError{Path: wrong.Path, Err: errors.New(wrong.Problem)})
	}
	return failure.WithReason(ReasonRelatedMissing, fmt.Errorf("related objects: %w", err))
}

// setRelated sets the rules of the parent, which opens watches, if the ServiceAccount may read all of it.
func (r *run) setRelated(ctx context.Context, rules []hook.RelatedRule) error {
	if r.user() != "" {
		reads, err := r.related.ReadsOf(ctx, r.Item.Key, rules)
		if err != nil {
			return err
		}
		if err := r.checkRelatedReads(ctx, r.user(), reads); err != nil {
			return err
		}
	}
	return r.related.Set(ctx, r.Item.Key, rules)
}

// relatedChanged enqueues a parent when a related object changed. changed is nil when a new watch
// is synced.
func (c *Controller) relatedChanged(parent queue.Key, changed *object.Object) {
	cause := queue.Cause{Kind: queue.RelatedChanged}
	if changed != nil {
		cause = c.RelatedCause(changed)
	}
	c.Queue.Add(parent, cause)
}
