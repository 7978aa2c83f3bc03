package composite

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/plan/rolling"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// inputChanged reports whether the hook must be called: its input is new, or a cause requires a
// call.
func (r *run) inputChanged() bool {
	r.inputDigest = r.digestInput(r.status.visible())
	if r.inputDigest != r.memory.syncedInput {
		return true
	}
	return r.calls == 0 && r.memory.mustCall(&r.Item)
}

// forceCallCauses are the causes that require a call even if the input is unchanged.
var forceCallCauses = [...]queue.CauseKind{queue.Resync, queue.RequeueAfter, queue.Retrying, queue.ReconcileRequested, queue.HookChanged,
	queue.LogicChanged, queue.LogicCompared}

// mustCall reports whether a cause requires a call, or whether the last run failed and so did not
// apply its response.
func (m *memory) mustCall(item *queue.Item) bool {
	return m.Result.Failing || item.Causes.HasAny(forceCallCauses[:]...)
}

// digestInput returns a digest of the parts of a request whose change requires a call.
func (r *run) digestInput(parent *object.Object) uint64 {
	var h maphash.Hash
	h.SetSeed(inputSeed)
	maphash.WriteComparable(&h, r.Phase)
	maphash.WriteComparable(&h, r.logic.Version)
	maphash.WriteComparable(&h, r.relation.objects.Digest)
	if r.program.SyncOnStatusChange {
		maphash.WriteComparable(&h, parent.Digest())
	} else {
		maphash.WriteComparable(&h, parent.ContentDigest())
	}
	for _, revision := range r.family.revisions {
		maphash.WriteComparable(&h, revision.Digest())
	}
	for _, children := range r.family.byKind {
		maphash.WriteComparable(&h, len(children))
		for _, child := range children {
			maphash.WriteComparable(&h, child.Digest())
		}
	}
	return max(h.Sum64(), 1)
}

func (r *run) callHook(ctx context.Context) error {
	r.memory.syncedInput = 0
	h := r.logic.Sync
	if r.Phase == controller.PhaseFinalizing {
		h = r.logic.Finalize
	}
	if err := r.loadRevisions(); err != nil {
		return err
	}
	r.calls++
	parent := r.status.visible()
	wait := r.rollout.callFormer(parent, func(then *object.Object, at record.Revision) (*hook.Response, error) {
		return r.callRecorded(ctx, h, r.newRequest(then), at)
	})
	request := r.newRequest(parent)
	response, err := r.callRecorded(ctx, h, request, r.rollout.latestRevision())
	wait()
	r.Router.Called(ctx, r.routed(), &router.Call{Request: request, Response: response, Err: err, Planner: &r.planner})
	if err != nil {
		return hookFailure(hookName(r.Phase), r.program.explainMissing(err))
	}
	r.response = response
	if err := r.checkDeterminism(ctx, h, parent); err != nil {
		return err
	}
	r.rollout.mergeInto(r.response)
	return nil
}

// newRequest builds a hook request from the cached objects without copying them.
func (r *run) newRequest(parent *object.Object) *hook.Request {
	request := &hook.Request{
		Controller:      r.program.Object,
		Parent:          r.program.objectJSON(parent),
		ParentNamespace: parent.Namespace(),
		Finalizing:      r.Phase == controller.PhaseFinalizing,
		Related:         r.relation.objects.Groups,
		Children:        make([]hook.Group, len(r.family.byKind)),
	}
	for i, children := range r.family.byKind {
		resource := r.program.Children[i].Resource
		group := hook.Group{APIVersion: resource.APIVersion(), Kind: resource.Kind, Objects: make([]hook.Entry, len(children))}
		for j, child := range children {
			group.Objects[j] = hook.Entry{Namespace: child.Namespace(), Name: child.Name(), Object: r.program.objectJSON(child)}
		}
		request.Children[i] = group
	}
	return request
}

// determinismPause is the time between two identical requests if two at once had the same response.
// Times in whole seconds differ after it.
const determinismPause = 1100 * time.Millisecond

// checkDeterminism repeats the request to a hook whose responses lead to one write after another.
// It sets nondeterminismErr if the responses differ.
func (r *run) checkDeterminism(ctx context.Context, h hook.Hook, parent *object.Object) error {
	if r.memory.hasWritten {
		r.memory.determinism.RecordWrite(r.program.intentOf(r.Stored), r.Tools.Now())
		r.memory.hasWritten = false
	}
	due, delayed := r.memory.determinism.Due(r.program.intentOf(r.Stored), r.Tools.Now())
	if !due {
		return nil
	}
	if delayed && !controller.Sleep(ctx, determinismPause) {
		return context.Cause(ctx)
	}
	again, err := r.callRecorded(ctx, h, r.newRequest(parent), r.rollout.latestRevision())
	if err != nil {
		return hookFailure(hookName(r.Phase), err)
	}
	where := plan.ResponseDifference(r.response, again)
	r.memory.determinism.RecordResult(where != "")
	if where == "" {
		return nil
	}
	r.nondeterminismErr = failure.WithReason(ReasonConflicting, fmt.Errorf("%s hook: two responses to the same request differ in %s; "+
		"remove random values and times, or derive them from the object", hookName(r.Phase), where))
	return nil
}

// intentOf returns a digest that changes when a user edits the parent. Decorators set labels
// themselves, so only the generation counts for them.
func (p *Program) intentOf(parent *object.Object) uint64 {
	if p.isDecorator() {
		return uint64(parent.Generation()) + 1
	}
	return parent.IntentDigest()
}

// callRecorded calls a hook for one revision of the parent and records the call.
func (r *run) callRecorded(ctx context.Context, h hook.Hook, request *hook.Request, at record.Revision) (*hook.Response, error) {
	began := r.Record.Now()
	ctx, output := r.WithOutput(ctx)
	asked, said := record.Request{ControllerType: r.program.controllerType(), Sync: request}, record.Response{}
	r.See(&asked, &record.Response{})
	response, err := withRecover(r.writes, hookName(r.Phase), func() (*hook.Response, error) { return h.Call(ctx, request) })
	if err == nil {
		// The run changes the response; the record keeps the original.
		original := *response
		said.Sync = &original
		r.See(&record.Request{}, &said)
	}
	r.Record.Called(began, record.Call{
		Name: hookName(r.Phase), Version: r.logic.Version, Revision: at, Request: asked, Response: said, Err: err, Output: output,
	})
	return response, err
}

// loadRevisions reads the revision history of the parent.
func (r *run) loadRevisions() error {
	r.rollout = nil
	if r.revisions == nil || leavesChildren(r.Phase, r.Stored) {
		return nil
	}
	revisions := rolling.Revisions{
		Controller: r.program.Name, Parents: r.program.Parent,
		FieldPaths: r.program.Revisions.FieldPaths, Namespace: r.program.Revisions.Namespace,
	}
	history, err := revisions.History(&r.planner, r.family.revisions, r.family.observedChildren())
	if err != nil {
		return failure.WithReason(ReasonRolloutFailed, err)
	}
	r.rollout = &rollingUpdate{
		writes: r.writes, family: &r.family, history: history, responses: make([]*hook.Response, len(history.Former)),
	}
	return nil
}
