package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/request"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// inputChanged reports whether the hook must be called: its input is new, or a cause requires a call.
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

// mustCall reports whether a cause requires a call, or whether the last run failed and so did not apply its response.
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
	wait := r.rollout.callPrevious(parent, func(then *object.Object, at *record.Revision) (*hook.Response, error) {
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
		Controller: r.program.Object, Parent: r.program.objectJSON(parent), ParentNamespace: parent.Namespace(),
		Finalizing: r.Phase == controller.PhaseFinalizing, Related: r.relation.objects.Groups,
		Children: make([]hook.Group, len(r.family.byKind)),
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

// determinismPause is between equal requests if two at once had the same response. Times in whole seconds differ then.
const determinismPause = 1100 * time.Millisecond

// checkDeterminism repeats a request whose responses keep causing writes. It sets nondeterminismErr if they differ.
func (r *run) checkDeterminism(ctx context.Context, h hook.Hook, parent *object.Object) error {
	if r.memory.hasWritten {
		r.memory.determinism.RecordWrite(r.program.intentOf(r.Stored), r.Now())
		r.memory.hasWritten = false
	}
	due, delayed := r.memory.determinism.Due(r.program.intentOf(r.Stored), r.Now())
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

// intentOf returns a digest that a user's edit changes. Decorators set labels, so only the generation counts for them.
func (p *Program) intentOf(parent *object.Object) uint64 {
	if p.isDecorator() {
		return uint64(parent.Generation()) + 1
	}
	return parent.IntentDigest()
}

func (r *run) callRecorded(ctx context.Context, h hook.Hook, request *hook.Request, at *record.Revision) (response *hook.Response,
	err error) {
	made := record.Call{
		Name: hookName(r.Phase), Revision: at, Sent: record.Request{ControllerType: r.program.controllerType(), Sync: request},
	}
	err = r.recordCall(ctx, made, func(ctx context.Context, received *record.Response) (err error) {
		if response, err = h.Call(ctx, request); err == nil {
			// The run changes the response; the record keeps the original.
			original := *response
			received.Sync = &original
		}
		return err
	})
	return response, err
}

// recordCall makes a call of a hook, which may be a Go function, and records it. The function do sets what was received.
func (w *writes) recordCall(ctx context.Context, made record.Call, do func(context.Context, *record.Response) error) error {
	began := w.Record.Now()
	made.Version = w.logic.Version
	w.See(&made.Sent, &record.Response{})
	ctx, made.Printed = w.WithOutput(ctx)
	attrs := []any{"hook", made.Name, "object", w.Item.Key.String()}
	made.Err = w.CallUserCode("the function", failure.Hook, attrs, w.Secrets, func() error { return do(ctx, &made.Received) })
	if made.Received.Sync != nil {
		w.See(&record.Request{}, &made.Received)
	}
	w.Record.Called(began, made)
	return made.Err
}

func (r *run) loadRevisions() error {
	r.rollout = nil
	if r.revisions == nil || leavesChildren(r.Phase, r.Stored) {
		return nil
	}
	revisions := r.program.Revisions
	revisions.Controller, revisions.Parents = r.program.Name, r.program.Parent
	history, err := revisions.History(&r.planner, r.family.revisions, r.family.observedChildren())
	if err != nil {
		return failure.WithReason(ReasonRolloutFailed, err)
	}
	r.rollout = &rollingUpdate{
		writes: r.writes, family: &r.family, history: history, responses: make([]*hook.Response, len(history.Previous)),
	}
	return nil
}

// relation is what a run gets of the related objects of its parent.
type relation struct {
	*writes

	status *parentStatus
	family *family
	// objects are the related objects of the request.
	objects related.Snapshot
}

// findRelated finds the related objects. It calls the customize hook again if the visible parent has changed.
func (r *relation) findRelated(ctx context.Context) error {
	if r.related == nil {
		return nil
	}
	r.seeCached()
	var missing unread
	choose := r.choose
	if r.Phase == controller.PhaseFinalizing {
		choose = r.chooseReadable
	}
	if err := choose(ctx, &missing); err != nil {
		return err
	}
	if err := r.awaitListed(&missing); err != nil {
		return err
	}
	r.objects = r.related.Snapshot(r.Item.Key)
	if len(missing.why) > 0 {
		r.objects = r.objects.WithEmpty(missing.kinds)
		r.SendOnce(hook.Event{Type: controller.Warning, Reason: ReasonRelatedMissing,
			Message: "the finalize hook is called without related objects: " + strings.Join(missing.why, "; ")})
	}
	return nil
}

// seeCached adds the values of the Secrets that the latest response was about: customize may fail on a copy of one.
func (r *relation) seeCached() {
	controller.SeeObjects(r.Secrets, r.family.byKind...)
	r.Secrets.See(false, func(visit func(json.RawMessage)) {
		for _, group := range r.related.Snapshot(r.Item.Key).Groups {
			for i := range group.Objects {
				visit(group.Objects[i].Object)
			}
		}
	})
}

// awaitListed returns an error until all related objects are listed. A finalize hook does without those that cannot be.
func (r *relation) awaitListed(missing *unread) error {
	pending := false
	for _, watch := range r.related.Pending(r.Item.Key) {
		switch {
		case r.Phase == controller.PhaseFinalizing && request.IsForbiddenOrNotFound(watch.Err):
			missing.add(watch.Selection.Resource, watch.Err)
		case watch.Err != nil:
			return relatedError(watch.Err)
		default:
			pending = true
		}
	}
	if pending {
		return errRelatedPending
	}
	return nil
}

// customizeDigest identifies what the customize hook is called with, and its version.
func (r *relation) customizeDigest() uint64 {
	digest := r.status.visible().Digest()
	if r.program.Previous == nil {
		return digest
	}
	return max(maphash.Comparable(inputSeed, struct {
		version string
		parent  uint64
	}{r.logic.Version, digest}), 1)
}

// choose sets what the customize hook selects, if the ServiceAccount may read all of it.
func (r *relation) choose(ctx context.Context, _ *unread) error {
	if r.memory.customizedParent != r.customizeDigest() {
		rules, err := r.callCustomize(ctx)
		if err != nil {
			return err
		}
		if err := r.setRules(ctx, rules); err != nil {
			return relatedError(err)
		}
		r.memory.customizedParent = r.customizeDigest()
	}
	return r.checkReads(ctx, r.related.Reads(r.Item.Key))
}

// setRules sets the rules of the parent, which opens watches.
func (r *relation) setRules(ctx context.Context, rules []hook.RelatedRule) error {
	if r.UserFor(r.Stored.Namespace()) != "" {
		reads, err := r.related.ReadsOf(ctx, r.Item.Key, rules)
		if err != nil {
			return err
		}
		if err := r.checkReads(ctx, reads); err != nil {
			return err
		}
	}
	return r.related.Set(ctx, r.Item.Key, rules)
}

func (r *relation) checkReads(ctx context.Context, reads []related.Read) error {
	return related.CheckReads(ctx, r.Access, r.UserFor(r.Stored.Namespace()), reads)
}

// callCustomize returns what the customize hook selects; nothing if only the other version has one.
func (r *relation) callCustomize(ctx context.Context) (rules []hook.RelatedRule, err error) {
	r.memory.customizedParent = 0
	if r.logic.Customize == nil {
		return nil, nil
	}
	request := r.program.customizeRequest(r.status.visible())
	made := record.Call{Name: "customize", Sent: record.Request{Customize: request}}
	err = r.recordCall(ctx, made, func(ctx context.Context, received *record.Response) (err error) {
		if received.Customize, err = r.logic.Customize.Customize(ctx, request); err == nil {
			rules = received.Customize.Related
		}
		return err
	})
	if err != nil {
		return nil, hookFailure("customize", r.program.explainMissing(err))
	}
	return rules, nil
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

// unread are related objects that a finalize hook does without, and why.
type unread struct {
	kinds []object.Resource
	why   []string
}

func (u *unread) add(resource object.Resource, err error) {
	u.kinds = append(u.kinds, resource)
	u.why = append(u.why, resource.String()+": "+failure.OneLine(err))
}

// chooseReadable is choose in a deletion, which must not wait for what only a sync needs: a kind that is not
// served or must not be read is an empty group, and so is everything if the customize hook keeps failing.
func (r *relation) chooseReadable(ctx context.Context, missing *unread) error {
	if r.memory.customizedParent != r.customizeDigest() {
		rules, err := r.callCustomize(ctx)
		switch {
		case err == nil:
			r.memory.finalizeRules, r.memory.customizeFailed = append([]hook.RelatedRule{}, rules...), false
		case r.givesUp(err):
			r.memory.customizeFailed = true
			missing.why = append(missing.why, failure.OneLine(err))
		default:
			return err
		}
	}
	return r.setReadable(ctx, missing)
}

// customizePatience is how many runs in a row may fail before the finalize hook is called without the customize hook.
const customizePatience = 3

// givesUp reports whether to go on without the customize hook. If it is unreachable, the finalize hook is, most likely.
func (r *relation) givesUp(err error) bool {
	_, delayed := hook.RetryDelay(err)
	return !delayed && !hook.IsUnreachable(err) && (r.memory.customizeFailed || r.memory.Attempts >= customizePatience-1)
}

// setReadable sets those rules of the customize hook whose objects can be read. Without an answer of the hook in
// the deletion, those of the latest sync stay if they can be read.
func (r *relation) setReadable(ctx context.Context, missing *unread) error {
	if r.memory.finalizeRules == nil {
		return r.dropUnreadable(ctx, missing)
	}
	var readable []hook.RelatedRule
	for _, rule := range r.memory.finalizeRules {
		kind, err := r.checkReadable(ctx, rule)
		switch {
		case err == nil:
			readable = append(readable, rule)
		case errors.Is(err, served.ErrNotServed), errors.Is(err, identity.ErrForbidden):
			missing.add(kind, err)
		default:
			return relatedError(err)
		}
	}
	if err := r.related.Set(ctx, r.Item.Key, readable); err != nil {
		return relatedError(err)
	}
	if len(missing.kinds) == 0 && !r.memory.customizeFailed {
		r.memory.customizedParent = r.customizeDigest()
	}
	return nil
}

// checkReadable returns the kind of a rule, and an error unless its objects can be read.
func (r *relation) checkReadable(ctx context.Context, rule hook.RelatedRule) (object.Resource, error) {
	reads, err := r.related.ReadsOf(ctx, r.Item.Key, []hook.RelatedRule{rule})
	if errors.Is(err, served.ErrNotServed) {
		if r.Known != nil {
			if known, was := r.Known(rule.APIVersion, rule.Resource); was {
				return known, served.ErrNotServed
			}
		}
		return served.Guess(rule.APIVersion, rule.Resource), served.ErrNotServed
	}
	if err != nil {
		return object.Resource{}, err
	}
	return reads[len(reads)-1].Resource, r.checkReads(ctx, reads)
}

// dropUnreadable drops the rules of the latest sync unless all of their objects may be read.
func (r *relation) dropUnreadable(ctx context.Context, missing *unread) error {
	reads := r.related.Reads(r.Item.Key)
	err := r.checkReads(ctx, reads)
	if !errors.Is(err, identity.ErrForbidden) {
		return err
	}
	for _, read := range reads {
		missing.add(read.Resource, err)
	}
	return r.related.Set(ctx, r.Item.Key, nil)
}
