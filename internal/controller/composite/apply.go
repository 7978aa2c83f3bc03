package composite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// apply writes the plan. It marks the input as synced if there was nothing to write.
func (r *run) apply(ctx context.Context, todo plan.Plan) error {
	r.memory.syncedInput = 0
	kept, err := r.storeRevisions(ctx)
	if err != nil {
		return err
	}
	whole := r.throttle(todo)
	todo = r.guardDeletions(whole)
	r.Record.Planned(r.guarded.Recorded(todo), r.countUnchanged(whole))
	if !todo.Empty() {
		if !r.StillExists() {
			return controller.ErrConflict
		}
		r.memory.hasWritten = true
		r.memory.skipUpdates(todo)
		if err := r.observeResults(ctx, r.applyPlan(ctx, todo)); err != nil {
			return err
		}
	}
	r.memory.upToDate.grow(len(todo.Equal))
	for _, same := range todo.Equal {
		r.memory.upToDate.add(same.Observed, same.Desired)
	}
	if r.rollout != nil && r.rollout.err != nil {
		return r.rollout.err
	}
	if todo.Empty() && !kept || r.dry != nil {
		// After a write the hook is called again with the result. A dry run shows what it has responded now.
		r.memory.syncedInput = r.inputDigest
	}
	return nil
}

// observeResults puts the results into the cache, so that the next pass sees them.
func (r *run) observeResults(ctx context.Context, results []apply.Result) error {
	var errs []error
	waiters := map[string]int{}
	for _, result := range results {
		if wait, is := errors.AsType[*apply.MissingNamespaceError](result.Err); is {
			waiters[wait.Namespace]++
			continue
		}
		if err := r.observeResult(ctx, result); err != nil {
			errs = append(errs, err)
		}
	}
	return joinErrors(append(errs, namespaceErrors(waiters, len(errs) > 0)...))
}

// namespaceErrors returns an error for each namespace that children wait for. If nothing else
// failed, the parent does own the namespaces and the cache was behind.
func namespaceErrors(namespaces map[string]int, failed bool) []error {
	if len(namespaces) > 0 && !failed {
		return []error{controller.ErrConflict}
	}
	var errs []error
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		what := "children wait"
		if namespaces[namespace] == 1 {
			what = "child waits"
		}
		errs = append(errs, failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf(
			"%d %s for Namespace %s, which this object does not own", namespaces[namespace], what, namespace)))
	}
	return errs
}

// maxErrors is how many errors of one run are reported in full. The rest are counted.
const maxErrors = 3

// joinErrors joins the errors. Conflicts are left out if there are other errors.
func joinErrors(errs []error) error {
	var failures []error
	moved := false
	for _, err := range errs {
		switch {
		case errors.Is(err, controller.ErrConflict):
			moved = true
		case err != nil:
			failures = append(failures, err)
		}
	}
	if len(failures) == 0 && moved {
		return controller.ErrConflict
	}
	if more := len(failures) - maxErrors; more > 0 {
		failures = append(failures[:maxErrors], fmt.Errorf("and %d more", more))
	}
	return errors.Join(failures...)
}

func (r *run) observeResult(ctx context.Context, result apply.Result) error {
	action, err := result.Action, result.Err
	if result.Updated != nil {
		// Its event is that of an own write too.
		r.ObserveWrite(action.Resource, result.Updated)
		r.memory.noteOwners(result)
	}
	switch {
	case err == nil && result.Stored == nil:
		r.ObserveDelete(action.Resource, action.Before)
		r.detectFlapping(ctx, action)
	case err == nil:
		r.ObserveWrite(action.Resource, result.Stored)
		if action.Desired != 0 {
			r.memory.upToDate.add(result.Stored, action.Desired)
		}
		if result.Changed() {
			r.detectFlapping(ctx, action)
		}
	case apply.NotFound(err) && action.Before != nil:
		r.ObserveDelete(action.Resource, action.Before)
	case apply.AlreadyExists(err):
		return r.handleExisting(ctx, action)
	case apply.Conflict(err):
		return controller.ErrConflict
	default:
		return failure.WithReason(controller.ReasonWriteFailed, err)
	}
	if err == nil {
		r.noteRecreation(result)
	}
	r.logWrite(result)
	return nil
}

func (r *run) logWrite(result apply.Result) {
	r.Log.Debug("child written", "verb", string(result.Action.Verb), "child", result.Action.Ref.String(),
		"parent", r.Stored.Ref().String(), "reason", result.Action.Reason)
}

// handleExisting handles a create that failed because the name is taken. The object may be a child
// that the cache has not seen or lost, or an orphan to adopt. Any other object is kept as it is.
func (r *run) handleExisting(ctx context.Context, action plan.Action) error {
	live, err := r.readExisting(ctx, action)
	if err != nil {
		return err
	}
	owner, owned := live.Controller()
	switch {
	case live.Deleting():
		return r.waitForName(live, "is being deleted")
	case owned && owner.UID != r.Stored.UID():
		return r.waitForName(live, "is owned by "+owner.Kind+" "+owner.Name)
	case r.program.isDecorator():
		return r.handleExistingAttachment(action.Resource, live)
	case r.planner.Selector.Matches(live.Labels()):
		r.ObserveWrite(action.Resource, live)
		return nil
	case owned && r.program.GenerateSelector:
		return r.relabel(ctx, action.Resource, live, plan.UIDLabel)
	}
	return r.waitForName(live, fmt.Sprintf("has no owner, and its labels do not match %q; delete or label it%s",
		r.planner.Selector, r.adoptCommand(action.Resource, live)))
}

// adoptCommand returns the command after which a parent with a generated selector adopts an object, such as a child
// of a former object of its name that was deleted with --cascade=orphan.
func (r *run) adoptCommand(resource object.Resource, o *object.Object) string {
	if !r.program.GenerateSelector {
		return ""
	}
	in := ""
	if o.Namespace() != "" {
		in = " -n " + o.Namespace()
	}
	return fmt.Sprintf(": kubectl label %s %s%s --overwrite %s=%s", resource.GroupResource(), o.Name(), in, plan.UIDLabel, r.Stored.UID())
}

// readExisting reads the object that has the name of one to create.
func (r *run) readExisting(ctx context.Context, action plan.Action) (*object.Object, error) {
	live, err := r.writer().Get(ctx, action.Resource, action.Ref.Namespace, action.Ref.Name)
	if apply.NotFound(err) {
		return nil, controller.ErrConflict
	}
	if err != nil {
		return nil, failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("create %s: it already exists; get it: %w",
			action.Ref, err))
	}
	return live, nil
}

// handleExistingAttachment is handleExisting for a decorator. A decorator adopts nothing, and owned
// objects without its mark belong to other controllers.
func (r *run) handleExistingAttachment(resource object.Resource, live *object.Object) error {
	mark := r.planner.Mark
	_, owned := live.Controller()
	switch {
	case !owned:
		return r.waitForName(live, "has no owner; delete it")
	case !mark.On(live):
		return r.waitForName(live, fmt.Sprintf("has no annotation %s: %s, so it belongs to another controller; annotate or delete it",
			mark.Key, mark.Value))
	}
	r.ObserveWrite(resource, live)
	return nil
}

// waitForName enqueues the parent again once the object with the taken name is gone.
func (r *run) waitForName(live *object.Object, why string) error {
	r.addNameWaiter(childNameOf(live), r.Item.Key)
	return failure.WithReason(controller.ReasonWriteFailed, nameTakenError(fmt.Sprintf("create %s: it already exists and %s",
		live.Ref(), why)))
}

// nameTakenError says what has the name of a child.
type nameTakenError string

func (e nameTakenError) Error() string { return string(e) }

// Fault classifies the error.
func (e nameTakenError) Fault() *failure.Fault { return &failure.Fault{Kind: failure.NameTaken} }

// relabel restores the label with the parent's UID, by which a watch selects an object.
func (r *run) relabel(ctx context.Context, resource object.Resource, o *object.Object, label string) error {
	labelled, err := o.With(fmt.Appendf(nil, "%q", r.Stored.UID()), "metadata", "labels", label)
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, err)
	}
	_, err = r.update(ctx, resource, "label", o, labelled)
	return err
}

// update updates an object without its status, and puts the result into the cache.
func (r *run) update(ctx context.Context, resource object.Resource, what string, before, edited *object.Object) (*object.Object, error) {
	began := r.Record.Now()
	stored, err := r.writer().Update(ctx, resource, edited)
	r.Record.Wrote(began, record.Write{Resource: resource, Part: "metadata", Before: before, After: stored, Err: err})
	if err != nil {
		return nil, updateError(what, before, err)
	}
	r.ObserveWrite(resource, stored)
	return stored, nil
}

func updateError(what string, o *object.Object, err error) error {
	if apply.Conflict(err) || apply.NotFound(err) {
		return controller.ErrConflict
	}
	return failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("%s %s: %w", what, o.Ref(), err))
}

// ownWrite has the digests of an object as a decorator last wrote it. The watch returns its writes
// as events, which are not edits and must not retry a failing object at once.
type ownWrite struct{ intent, digest uint64 }

// noteOwnWrite remembers a write. It comes before the write, because the event may be faster than
// the response.
func (c *Controller) noteOwnWrite(key queue.Key, written *object.Object) {
	c.ownWrites.Edit(func(last map[queue.Key]ownWrite) { last[key] = ownWrite{written.IntentDigest(), written.Digest()} })
}

// isOwnWrite reports whether an object is as last written. Kinds without generations need the full
// digest: the intent does not include all their fields.
func (c *Controller) isOwnWrite(now *object.Object) bool {
	last := c.ownWrites.Get(controller.KeyOf(now))
	return last.digest == now.Digest() || now.Generation() > 0 && last.intent == now.IntentDigest()
}

// throttle removes writes to flapping children from a plan and requeues the parent for when they
// are allowed again.
func (r *run) throttle(todo plan.Plan) plan.Plan {
	throttled, until := r.memory.flapping.Throttle(todo, r.tools.Now())
	if !until.IsZero() {
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, until.Sub(r.tools.Now()))
	}
	if first, there := throttled.First(); there {
		r.latestWrite = first.Ref.String() + ": " + first.Reason
		r.latestLocations = []record.Location{{Resource: first.Resource, Namespace: strings.Clone(first.Ref.Namespace)}}
	}
	return throttled
}

// detectFlapping counts a write and sends an event if a child is flapping.
func (r *run) detectFlapping(ctx context.Context, action plan.Action) {
	if !r.memory.flapping.RecordWrite(action, r.tools.Now()) {
		return
	}
	if manager, err := r.writer().LastManager(ctx, action); err == nil {
		r.memory.flapping.SetManager(action, manager)
	}
	for _, flapping := range r.memory.flapping.Children(r.tools.Now()) {
		if flapping.Ref == action.Ref {
			r.SendEvent(hook.Event{Type: controller.Warning, Reason: ReasonFlapping, Message: flappingMessage(flapping) +
				"; next write at " + flapping.Until.UTC().Format(time.TimeOnly)})
		}
	}
}

func flappingMessage(flapping plan.FlappingChild) string {
	by := "another client or the API server changes it"
	if flapping.Manager != "" {
		by = "the field manager " + flapping.Manager + " changes it"
	}
	return fmt.Sprintf("%s: %s repeatedly, although the hook response is unchanged: %s", flapping.Ref, flapping.Reason, by)
}

// conflict returns what does not converge; zero if all does.
func (r *run) conflict(err error) controller.Conflict {
	if err != nil && controller.ReasonOf(err) == ReasonConflicting {
		return controller.Conflict{Message: failure.OneLine(err), Locations: r.latestLocations}
	}
	fits := r.memory.flapping.Children(r.tools.Now())
	if len(fits) == 0 {
		return controller.Conflict{}
	}
	// No other event may show that the flapping has ended.
	r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, fits[0].ExpiresAt.Sub(r.tools.Now()))
	return controller.Conflict{Message: flappingMessage(fits[0]), Locations: r.locationsOf(fits[0].Ref)}
}

// locationsOf returns where a child may be: two kinds of children may have the same kind name.
func (r *run) locationsOf(child object.Ref) (all []record.Location) {
	for _, kind := range r.Controller.children {
		if kind.rule.Resource.GroupKind() == child.GroupKind() {
			all = append(all, record.Location{Resource: kind.rule.Resource, Namespace: strings.Clone(child.Namespace)})
		}
	}
	return all
}
