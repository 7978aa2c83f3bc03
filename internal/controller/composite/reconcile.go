package composite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// maxPasses bounds the hook calls of one run: one for the observed state, one for the result of the
// writes, and more for hooks that work in steps.
const maxPasses = 6

// run is one reconcile of one parent.
type run struct {
	*Controller
	*controller.Run

	memory *memory
	// dry is nil unless this is a dry run.
	dry *dryRun
	// logic is the version that is called for the parent.
	logic controller.Logic
	// parent is the stored parent with the latest response applied.
	parent *object.Object
	// visible caches visibleParent for a stored parent.
	visible struct{ of, as *object.Object }
	planner plan.Planner
	// children are the observed children, in the order of the rules.
	children [][]*object.Object
	// storedRevisions are the stored revisions of the parent. rollout is nil if no child rule is
	// rolling.
	storedRevisions []*object.Object
	rollout         *childRollout
	// relatedObjects are the related objects of the request.
	relatedObjects related.Snapshot
	inputDigest    uint64
	response       *hook.Response
	calls          int
	// latestWrite describes the first write of the latest plan.
	latestWrite string
	// latestLocations is where it was.
	latestLocations []record.Location
	// nondeterminismErr is set if responses to the same request differ.
	nondeterminismErr error
	// unservedErr is set if the latest response has children of kinds that are not served any more.
	unservedErr error
	// initialChildren is how many children there were when the run started.
	initialChildren int
	// guarded is the decision about the deletions in the latest plan.
	guarded guard.Decision
	// updatedChildren is how many children were moved to the latest revision.
	updatedChildren int
	// recreated counts how often each child was recreated; nil for none.
	recreated map[object.Ref]int
}

// reconcile runs one parent.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) queue.Outcome {
	return c.Reconcile(ctx, item, func(ctx context.Context, of *controller.Run, remembered controller.Remembered, _ bool) (record.Outcome,
		queue.Outcome) {
		r := c.newRun(of, remembered)
		switch r.Phase = r.PhaseOf(r.Stored); r.Phase {
		case controller.PhasePaused:
			c.deletionGuard.Drop(r.id())
			return record.Skipped, queue.NoRequeue()
		case controller.PhaseIgnored:
			return record.Skipped, queue.NoRequeue() // It moved to a version that ignores it.
		}
		return r.finish(ctx, r.attempt(ctx))
	})
}

// attempt reconciles the parent and stores the failure in its status.
func (r *run) attempt(ctx context.Context) error {
	err := r.Recover(func() error { return r.reconcileParent(ctx) })
	if err != nil {
		err = r.releaseAbandoned(ctx, err)
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, identity.ErrForbidden) {
		return err // The ServiceAccount cannot be expected to write the status.
	}
	statusErr := r.Recover(func() error { return r.storeFailure(ctx, err) })
	if statusErr == nil {
		return err
	}
	return joinErrors([]error{err, statusErr})
}

// reconcileParent does what the phase of the parent requires.
func (r *run) reconcileParent(ctx context.Context) error {
	if err := r.checkReads(ctx); err != nil {
		return err
	}
	if r.Phase == controller.PhaseReleasing {
		if err := r.removeFinalizer(ctx); err != nil {
			return err
		}
		if r.Phase = r.PhaseOf(r.Stored); r.Phase != controller.PhaseManaged {
			return nil
		}
	}
	if err := r.holdParent(ctx); err != nil || r.hasNoHook() {
		return err
	}
	return r.syncLoop(ctx)
}

// hasNoHook reports whether no hook is called in the current phase.
func (r *run) hasNoHook() bool { return r.Phase == controller.PhaseManaged && r.logic.Sync == nil }

// syncLoop calls the hook and applies the response until the input no longer changes.
func (r *run) syncLoop(ctx context.Context) error {
	for pass := range maxPasses {
		if err := r.claim(ctx); err != nil {
			return err
		}
		if pass == 0 {
			r.initialChildren = r.countChildren()
		}
		if r.finalized() {
			return r.completeFinalization(ctx)
		}
		if err := r.relate(ctx); err != nil {
			return err
		}
		if !r.inputChanged() {
			return cmp.Or(r.withheldError(), r.unservedErr)
		}
		if err := r.callHook(ctx); err != nil {
			return err
		}
		todo, err := r.buildPlan()
		if err != nil {
			return err
		}
		if err := r.apply(ctx, todo); err != nil || r.nondeterminismErr != nil {
			return joinErrors([]error{r.nondeterminismErr, err})
		}
		r.reportResponseEvents()
		if r.noteFinalized() && !r.hasPlanned() {
			continue
		}
		if err := r.storeResponse(ctx); err != nil || r.dry != nil {
			return cmp.Or(err, r.unservedErr) // What the next call of a dry run would get is not known.
		}
	}
	return r.notConvergedError()
}

// storeResponse stores what the latest response says about the parent, so that the hook only gets
// stored state. The status is stored once the children are done, because it mostly describes them.
func (r *run) storeResponse(ctx context.Context) error {
	if r.memory.syncedInput != 0 && (len(r.guarded.Withheld) > 0 || r.unservedErr != nil) {
		return nil //nolint:nilerr // The status is stored at the end, with what is held or missing.
	}
	if r.memory.syncedInput != 0 {
		if err := r.setConditions(r.syncReport()); err != nil {
			return err
		}
		return r.storeStatus(ctx)
	}
	if r.decorationChanged() {
		return r.decorate(ctx)
	}
	return nil
}

// notConvergedError returns the error of a run that has used all passes.
func (r *run) notConvergedError() error {
	if r.countChildren() > r.initialChildren || r.updatedChildren > 0 || r.onlyRecreates() {
		// Hooks may work in steps, and so do rollouts.
		return errIncomplete
	}
	if fits := r.memory.flapping.Children(r.tools.Now()); len(fits) > 0 {
		return failure.WithReason(ReasonFlapping, errors.New(flappingMessage(fits[0])))
	}
	return failure.WithReason(ReasonConflicting, fmt.Errorf("%s hook: its responses did not converge in %d calls: "+
		"applying each response changes the next request; latest difference: %s",
		r.hookName(), maxPasses, cmp.Or(r.latestWrite, "in the status")))
}

// PhaseOf returns the phase of a parent.
func (c *Controller) PhaseOf(parent *object.Object) controller.Phase {
	return c.program.phaseOf(parent, c.Router.Of(parent).Finalize != nil)
}

// PhaseOf returns the phase of the parent for the version that the run calls, also if it moves meanwhile.
func (r *run) PhaseOf(parent *object.Object) controller.Phase {
	return r.program.phaseOf(parent, r.logic.Finalize != nil)
}

// phaseOf returns the phase of a parent, whose version finalizes or not.
func (p *Program) phaseOf(parent *object.Object, finalizes bool) controller.Phase {
	selected, held := p.selects(parent), p.hasFinalizer(parent)
	phase := controller.PhaseOf(parent, selected, held)
	switch {
	case phase == controller.PhaseIgnored || phase == controller.PhasePaused:
		return phase
	case !finalizes && held:
		return controller.PhaseReleasing
	case held && (parent.Deleting() || !selected):
		return controller.PhaseFinalizing
	case parent.Deleting() && finalizes:
		// It is finalized, or was deleted before it had the finalizer.
		return controller.PhaseIgnored
	}
	return controller.PhaseManaged
}

func (p *Program) selects(parent *object.Object) bool { return anySelects(p.Selections, parent) }

// anySelects reports whether a parent matches one of the selections, or there are none.
func anySelects(all []Selection, parent *object.Object) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(s Selection) bool { return s.Matches(parent) })
}

// Matches reports whether the selection selects a parent.
func (s Selection) Matches(parent *object.Object) bool {
	if s.Labels != nil && !s.Labels.Matches(parent.Labels()) {
		return false
	}
	return s.Annotations == nil || s.Annotations.Matches(annotationsOf(parent))
}

// hasFinalizer reports whether a parent has the program's finalizer.
func (p *Program) hasFinalizer(parent *object.Object) bool { return parent.HasFinalizer(p.Finalizer) }

// annotationsOf returns all annotations of an object. It parses them each time, because few
// controllers select by annotation.
func annotationsOf(o *object.Object) labels.Set {
	var all labels.Set
	_ = json.Unmarshal(o.Field("metadata", "annotations"), &all) // An object without annotations has no field.
	return all
}

// call calls a hook for one revision of the parent and records the call.
func (r *run) call(ctx context.Context, h hook.Hook, request *hook.Request, at record.Revision) (*hook.Response, error) {
	began := r.Record.Now()
	ctx, output := r.withOutput(ctx)
	asked, said := record.Request{ControllerType: r.program.controllerType(), Sync: request}, record.Response{}
	r.See(&asked, &record.Response{})
	response, err := withRecover(r, r.hookName(), func() (*hook.Response, error) { return h.Call(ctx, request) })
	if err == nil {
		// The run changes the response; the record keeps the original.
		original := *response
		said.Sync = &original
		r.See(&record.Request{}, &said)
	}
	r.Record.Called(began, record.Call{Name: r.hookName(), Version: r.logic.Version, Revision: at, Request: asked, Response: said, Err: err,
		Output: output})
	return response, err
}

// withOutput returns a context for a call of a hook, and what it prints, if that is recorded.
func (r *run) withOutput(ctx context.Context) (context.Context, *call.Output) {
	if !r.Record.Detailed() {
		return ctx, nil
	}
	return call.WithOutput(ctx)
}

// withRecover calls a hook, which may be a Go function.
func withRecover[T any](r *run, name string, do func() (T, error)) (response T, err error) {
	err = r.CallUserCode("the function", failure.Hook, []any{"hook", name, "object", r.Item.Key.String()}, r.Secrets, func() (err error) {
		response, err = do()
		return err
	})
	return response, err
}

func (r *run) applyPlan(ctx context.Context, todo plan.Plan) []apply.Result {
	began := r.Record.Now()
	results := r.writer().ApplyPlan(ctx, todo)
	r.Record.Applied(began, results)
	return results
}

// countUnchanged returns how many children a plan does not write.
func (r *run) countUnchanged(todo plan.Plan) int {
	left := r.countChildren()
	for _, stage := range todo.Stages {
		for i := range stage {
			if stage[i].Before != nil {
				left--
			}
		}
	}
	return max(left, 0)
}

// reportResponseEvents sends the events of an applied response. An event that is in every response
// is sent once.
func (r *run) reportResponseEvents() {
	reported := make([]uint64, 0, len(r.response.Events))
	for _, event := range r.response.Events {
		digest := maphash.Comparable(inputSeed, event)
		if !slices.Contains(r.memory.sentEvents, digest) && !slices.Contains(reported, digest) {
			r.SendEvent(event)
		}
		reported = append(reported, digest)
	}
	r.memory.sentEvents = reported
}

// errIncomplete ends a run that has used its passes and continues in the next run.
var errIncomplete = errors.New("continued in the next run")

// hookFailure adds the reason to an error of a hook.
func hookFailure(hookName string, err error) error {
	reason := ReasonHookFailed
	if hook.IsMalformed(err) {
		reason = ReasonInvalidResponse
	} else if delay, delayed := hook.RetryDelay(err); delayed {
		err = fmt.Errorf("%w; next call in %v", err, delay.Round(time.Second))
	}
	return failure.WithReason(reason, fmt.Errorf("%s hook: %w", hookName, err))
}

// explainMissing adds to the error of a hook that looks for managedFields how to include them in requests.
func (p *Program) explainMissing(err error) error {
	text := err.Error()
	if fault := record.FaultOf(failure.WithSource(failure.Hook, err)); fault != nil {
		text += fault.Line
	}
	if p.FullObjects || !strings.Contains(text, "managedFields") {
		return err
	}
	return fmt.Errorf("%w; requests have no metadata.managedFields unless the controller has spec.fullObjects: true, "+
		"or in metacontroller.k8s.io the annotation %s: \"true\"", err, setpoint.AnnotationFullObjects)
}

// isHookFailure reports whether a hook caused the failure, not a write.
func isHookFailure(err error) bool {
	if _, delayed := hook.RetryDelay(err); delayed {
		return true
	}
	reason := controller.ReasonOf(err)
	return reason == ReasonHookFailed || reason == ReasonInvalidResponse
}
