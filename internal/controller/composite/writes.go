package composite

import (
	"cmp"
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

// writes sends the writes of one run, and puts their results into the caches and the memory.
type writes struct {
	*Controller
	*controller.Run

	memory *memory
	// logic is the version that is called for the parent.
	logic   controller.Logic
	planner plan.Planner
	// writer acts as the controller's ServiceAccount. In a dry run it is dry, which is nil otherwise.
	writer writer
	dry    *apply.DryWriter
	// first describes the first write of the latest plan, and firstAt says where it was.
	first   string
	firstAt []record.Location
	// recreated counts how often each child was recreated; nil for none.
	recreated map[object.Ref]int
}

// writer reads from the API server and writes to it.
type writer interface {
	Get(ctx context.Context, resource object.Resource, namespace, name string) (*object.Object, error)
	Update(ctx context.Context, resource object.Resource, o *object.Object, part string) (*object.Object, error)
	ApplyPlan(ctx context.Context, p plan.Plan) []apply.Result
	LastManager(ctx context.Context, a plan.Action) (string, error)
}

func (w *writes) apply(ctx context.Context, todo plan.Plan) []apply.Result {
	began := w.Record.Now()
	results := w.writer.ApplyPlan(ctx, todo)
	w.Record.Applied(began, results)
	return results
}

// observeResults puts the results into the cache, so that the next pass sees them.
func (w *writes) observeResults(ctx context.Context, results []apply.Result) error {
	var errs []error
	waiters := map[string]int{}
	for _, result := range results {
		if wait, is := errors.AsType[*apply.MissingNamespaceError](result.Err); is {
			waiters[wait.Namespace]++
			continue
		}
		if err := w.observeResult(ctx, result); err != nil {
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
		errs = append(errs, fmt.Errorf("%d %s for Namespace %s, which this object does not own", namespaces[namespace], what, namespace))
	}
	return errs
}

// cacheResult puts a result into the cache. It is no error that an object is gone already.
func (w *writes) cacheResult(result apply.Result) error {
	action := result.Action
	switch err := result.Err; {
	case err == nil:
		w.ObserveResult(action.Resource, action.Before, result.Stored)
	case apply.NotFound(err) && action.Before != nil:
		w.ObserveDelete(action.Resource, action.Before)
	case apply.Conflict(err):
		return controller.ErrConflict
	default:
		return err
	}
	return nil
}

func (w *writes) observeResult(ctx context.Context, result apply.Result) error {
	action, gone := result.Action, result.Stored == nil
	if result.Updated != nil {
		// Its event is that of an own write too.
		w.ObserveWrite(action.Resource, result.Updated)
		w.memory.noteOwners(result)
	}
	switch err := w.cacheResult(result); {
	case apply.AlreadyExists(err):
		return w.handleExisting(ctx, action)
	case err != nil:
		return err
	}
	if result.Err == nil {
		if !gone && action.Desired != 0 {
			w.memory.upToDate.add(result.Stored, action.Desired)
		}
		if gone || result.Changed() {
			w.detectFlapping(ctx, action)
		}
		w.noteRecreation(result)
	}
	w.Log.Debug("child written", "verb", string(action.Verb), "child", action.Ref.String(), "parent", w.Stored.Ref().String(), "reason",
		action.Reason)
	return nil
}

// handleExisting handles a create that failed because the name is taken. The object may be a child
// that the cache has not seen or lost, or an orphan to adopt. Any other object is kept as it is: a decorator
// adopts nothing, and owned objects without its mark belong to other controllers.
func (w *writes) handleExisting(ctx context.Context, action plan.Action) error {
	live, err := w.readExisting(ctx, action)
	if err != nil {
		return err
	}
	owner, owned := live.Controller()
	mark := w.planner.Mark
	switch {
	case live.Deleting():
		return w.waitForName(live, "is being deleted")
	case owned && owner.UID != w.Stored.UID():
		return w.waitForName(live, "is owned by "+owner.Kind+" "+owner.Name)
	case w.program.isDecorator() && !owned:
		return w.waitForName(live, "has no owner; delete it")
	case w.program.isDecorator() && !mark.On(live):
		return w.waitForName(live, fmt.Sprintf("has no annotation %s: %s, so it belongs to another controller; annotate or delete it",
			mark.Key, mark.Value))
	case w.program.isDecorator(), w.planner.Selector.Matches(live.Labels()):
		w.ObserveWrite(action.Resource, live)
		return nil
	case owned && w.program.GenerateSelector:
		return w.relabel(ctx, action.Resource, live, plan.UIDLabel)
	}
	return w.waitForName(live, fmt.Sprintf("has no owner, and its labels do not match %q; delete or label it%s",
		w.planner.Selector, w.adoptCommand(action.Resource, live)))
}

// adoptCommand returns the command after which a parent with a generated selector adopts an object, such as a child
// of an earlier object of its name that was deleted with --cascade=orphan.
func (w *writes) adoptCommand(resource object.Resource, o *object.Object) string {
	if !w.program.GenerateSelector {
		return ""
	}
	in := ""
	if o.Namespace() != "" {
		in = " -n " + o.Namespace()
	}
	return fmt.Sprintf(": kubectl label %s %s%s --overwrite %s=%s", resource.GroupResource(), o.Name(), in, plan.UIDLabel, w.Stored.UID())
}

func (w *writes) readExisting(ctx context.Context, action plan.Action) (*object.Object, error) {
	live, err := w.writer.Get(ctx, action.Resource, action.Ref.Namespace, action.Ref.Name)
	if apply.NotFound(err) {
		return nil, controller.ErrConflict
	}
	if err != nil {
		return nil, fmt.Errorf("create %s: it already exists; get it: %w", action.Ref, err)
	}
	return live, nil
}

// waitForName enqueues the parent again once the object with the taken name is gone.
func (w *writes) waitForName(live *object.Object, why string) error {
	w.nameWaiters.add(live.Ref().Identity(), w.Item.Key)
	return nameTakenError(fmt.Sprintf("create %s: it already exists and %s", live.Ref(), why))
}

// nameTakenError says what has the name of a child.
type nameTakenError string

func (e nameTakenError) Error() string { return string(e) }

// Fault classifies the error.
func (e nameTakenError) Fault() *failure.Fault { return &failure.Fault{Kind: failure.NameTaken} }

// relabel restores the label with the parent's UID, by which a watch selects an object.
func (w *writes) relabel(ctx context.Context, resource object.Resource, o *object.Object, label string) error {
	labelled, err := o.WithValue(w.Stored.UID(), "metadata", "labels", label)
	if err != nil {
		return err
	}
	_, err = w.update(ctx, resource, "label", record.Write{Before: o, After: labelled})
	return err
}

// update updates an object without its status, or nothing but a part, and puts the result into the cache.
func (w *writes) update(ctx context.Context, resource object.Resource, what string, edit record.Write) (*object.Object, error) {
	began, part := w.Record.Now(), edit.Part
	edit.Part = cmp.Or(part, "metadata")
	edit.After, edit.Err = w.writer.Update(ctx, resource, edit.After, part)
	w.Record.Wrote(began, resource, edit)
	switch err := edit.Err; {
	case apply.Conflict(err) || apply.NotFound(err):
		return nil, controller.ErrConflict
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", what, edit.Before.Ref(), err)
	}
	w.ObserveWrite(resource, edit.After)
	return edit.After, nil
}

// throttle removes writes to flapping children from a plan and requeues the parent for when they are allowed again.
func (w *writes) throttle(todo plan.Plan) plan.Plan {
	throttled, until := w.memory.flapping.Throttle(todo, w.Now())
	if !until.IsZero() {
		w.Queue.AddAfter(w.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, until.Sub(w.Now()))
	}
	if !throttled.Empty() {
		first := throttled.Stages[0][0]
		w.first = first.Ref.String() + ": " + first.Reason
		w.firstAt = []record.Location{{Kind: object.KindOf(first.Resource), Namespace: strings.Clone(first.Ref.Namespace)}}
	}
	return throttled
}

func (w *writes) detectFlapping(ctx context.Context, action plan.Action) {
	flapping := w.memory.flapping.RecordWrite(action, w.Now())
	if flapping == nil {
		return
	}
	if manager, err := w.writer.LastManager(ctx, action); err == nil {
		flapping.Manager = manager
	}
	w.SendEvent(hook.Event{Type: controller.Warning, Reason: ReasonFlapping, Message: flappingMessage(*flapping) +
		"; next write at " + flapping.Until.UTC().Format(time.TimeOnly)})
}

func flappingMessage(flapping plan.FlappingChild) string {
	by := "another client or the API server changes it"
	if flapping.Manager != "" {
		by = "the field manager " + flapping.Manager + " changes it"
	}
	return fmt.Sprintf("%s: %s repeatedly, although the hook response is unchanged: %s", flapping.Ref, flapping.Reason, by)
}

// conflict returns what does not converge; zero if all does.
func (w *writes) conflict(err error) controller.Conflict {
	if err != nil && controller.ReasonOf(err) == ReasonConflicting {
		return controller.Conflict{Message: failure.OneLine(err), Locations: w.firstAt}
	}
	fits := w.memory.flapping.Children(w.Now())
	if len(fits) == 0 {
		return controller.Conflict{}
	}
	// No other event may show that the flapping has ended.
	w.Queue.AddAfter(w.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, fits[0].ExpiresAt.Sub(w.Now()))
	return controller.Conflict{Message: flappingMessage(fits[0]), Locations: locationsOf(w.program.Children, fits[0].Ref)}
}

// locationsOf returns where a child may be: two kinds of children may have the same kind name.
func locationsOf(rules plan.Rules, child object.Ref) (all []record.Location) {
	for _, rule := range rules {
		if rule.Resource.GroupKind() == child.GroupKind() {
			all = append(all, record.Location{Kind: object.KindOf(rule.Resource), Namespace: strings.Clone(child.Namespace)})
		}
	}
	return all
}

// noteRecreation notes that a child was deleted to be created again, or created after that. The request changes
// several times until the new child is ready, such as that of a slow Pod.
func (w *writes) noteRecreation(result apply.Result) {
	ref := result.Action.Ref.Identity()
	deleted := result.Action.Verb == plan.Delete && result.Action.DryRunVerb != "" && (result.Stored == nil || result.Stored.Deleting())
	created := result.Action.Verb == plan.Create && w.memory.recreating[ref]
	if !deleted && !created {
		return
	}
	if w.recreated == nil {
		w.recreated = map[object.Ref]int{}
	}
	if created {
		delete(w.memory.recreating, ref)
		w.recreated[ref] = max(w.recreated[ref], 1)
		return
	}
	if w.memory.recreating == nil {
		w.memory.recreating = map[object.Ref]bool{}
	}
	w.memory.recreating[ref] = true
	w.recreated[ref]++
}

func (w *writes) observeRevision(ctx context.Context, result apply.Result) error {
	action, err := result.Action, w.cacheResult(result)
	switch {
	case apply.AlreadyExists(err):
		return w.handleExistingRevision(ctx, action)
	case result.Err != nil:
		return revisionError(err)
	}
	w.Log.Debug("revision written", "verb", string(action.Verb), "revision", action.Ref.String(),
		"parent", w.Stored.Ref().String(), "reason", action.Reason)
	return nil
}

// handleExistingRevision handles a create of a revision whose name is taken. It is the parent's own
// if the parent controls it: then the cache is behind, or the label was removed.
func (w *writes) handleExistingRevision(ctx context.Context, action plan.Action) error {
	live, err := w.readExisting(ctx, action)
	switch {
	case err != nil:
		return revisionError(err)
	case live.Deleting():
		return w.waitForName(live, "is being deleted")
	case !live.ControlledBy(w.Stored.UID()):
		return w.waitForName(live, "does not belong to "+w.Stored.Ref().String()+"; delete it")
	case live.Labels().Get(plan.ParentUIDLabel) == w.Stored.UID():
		w.ObserveWrite(action.Resource, live)
		return controller.ErrConflict
	}
	return revisionError(w.relabel(ctx, action.Resource, live, plan.ParentUIDLabel))
}

// revisionError returns the error of a run that met a revision which the cache did not have.
func revisionError(err error) error {
	if err == nil || errors.Is(err, controller.ErrConflict) {
		return controller.ErrConflict
	}
	return failure.WithReason(ReasonRolloutFailed, err)
}

// recoverLostChildren restores the label of lost children that still exist and are still owned.
func (w *writes) recoverLostChildren(ctx context.Context) error {
	all := w.lostChildren.Take(w.Item.Key)
	for i, one := range all {
		err := w.recoverLostChild(ctx, one)
		if apply.Forbidden(err) {
			// Missing permissions do not stop the rest of the run.
			w.lostChildren.add(w.Item.Key, one)
			continue
		}
		if err != nil {
			w.lostChildren.add(w.Item.Key, all[i:]...)
			return err
		}
	}
	return nil
}

func (w *writes) recoverLostChild(ctx context.Context, one lostChild) error {
	live, err := w.writer.Get(ctx, one.resource, one.namespace, one.name)
	if apply.NotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get lost child %s %s: %w", one.resource.Kind, one.name, err)
	}
	// A child with another label was released on purpose.
	lost := live.ControlledBy(w.Stored.UID()) && !live.Labels().Has(plan.UIDLabel)
	if live.UID() != one.uid || !lost || live.Deleting() {
		return nil
	}
	return w.relabel(ctx, one.resource, live, plan.UIDLabel)
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
