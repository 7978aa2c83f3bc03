package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/store"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// carry is the step that has the plan carried out. The input is answered when
// there was nothing to do.
func (r *run) carry(ctx context.Context, todo plan.Plan) error {
	r.memory.answered = 0
	kept, err := r.keep(ctx)
	if err != nil {
		return err
	}
	whole := r.calm(todo)
	todo = r.guarded(whole)
	r.account.Planned(r.asPlanned(todo, whole), r.untouchedBy(whole))
	if !todo.Empty() {
		if !r.still() {
			return errMoved
		}
		r.memory.wrote = true
		if err := r.absorb(ctx, r.carried(ctx, todo)); err != nil {
			return err
		}
	}
	r.memory.settled.expect(len(todo.Equal))
	for _, same := range todo.Equal {
		r.memory.settled.note(same.Observed, same.Desired)
	}
	if r.rollout != nil && r.rollout.err != nil {
		return r.rollout.err
	}
	if todo.Empty() && !kept {
		// After a write the hook is asked about what came of it.
		r.memory.answered = r.input
	}
	return nil
}

// absorb takes in what became of each write, so that the next look sees it.
func (r *run) absorb(ctx context.Context, results []apply.Result) error {
	var errs []error
	waiting := map[string]int{}
	for _, result := range results {
		if wait, is := errors.AsType[*apply.NoNamespaceError](result.Err); is {
			waiting[wait.Namespace]++
			continue
		}
		if err := r.absorbOne(ctx, result); err != nil {
			errs = append(errs, err)
		}
	}
	return worst(append(errs, waitFor(waiting, len(errs) > 0)...))
}

// waitFor are the errors of children that wait for their namespaces. If nothing failed,
// the namespaces are the parent's after all: the cache had not seen them.
func waitFor(namespaces map[string]int, failed bool) []error {
	if len(namespaces) > 0 && !failed {
		return []error{errMoved}
	}
	var errs []error
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		what := "children wait"
		if namespaces[namespace] == 1 {
			what = "child waits"
		}
		errs = append(errs, failure.New(ReasonWriteFailed, fmt.Errorf(
			"%d %s for Namespace %s: nothing is written into one that is not this object's", namespaces[namespace], what, namespace)))
	}
	return errs
}

// maxTold is how many errors of one run are told; more are counted.
const maxTold = 3

// worst joins the errors, without those that only say that something moved
// while there are others.
func worst(errs []error) error {
	var grave []error
	moved := false
	for _, err := range errs {
		switch {
		case errors.Is(err, errMoved):
			moved = true
		case err != nil:
			grave = append(grave, err)
		}
	}
	if len(grave) == 0 && moved {
		return errMoved
	}
	if more := len(grave) - maxTold; more > 0 {
		grave = append(grave[:maxTold], fmt.Errorf("and %d more", more))
	}
	return errors.Join(grave...)
}

func (r *run) absorbOne(ctx context.Context, result apply.Result) error {
	action, err := result.Action, result.Err
	view := r.viewOf(action.Resource)
	switch {
	case err == nil && result.Stored == nil:
		view.Removed(action.Before)
		r.watchFits(ctx, action)
	case err == nil:
		view.Wrote(result.Stored)
		if action.Desired != 0 {
			r.memory.settled.note(result.Stored, action.Desired)
		}
		if result.Changed() {
			r.watchFits(ctx, action)
		}
	case apply.Gone(err) && action.Before != nil:
		view.Removed(action.Before)
	case apply.Exists(err):
		return r.meet(ctx, action)
	case apply.Conflict(err):
		return errMoved
	default:
		return failure.New(ReasonWriteFailed, err)
	}
	r.logWrite(result)
	return nil
}

func (r *run) logWrite(result apply.Result) {
	r.log.Debug("child written", "verb", string(result.Action.Verb), "child", result.Action.Ref.String(),
		"parent", r.stored.Ref().String(), "reason", result.Action.Reason)
}

// meet looks at the object that already has the name of a child to be created.
// It may be our own that the cache has not seen or has lost sight of, or one to
// be taken in; any other is somebody else's and stays theirs.
func (r *run) meet(ctx context.Context, action plan.Action) error {
	live, err := r.tools.Writer.Get(ctx, action.Resource, action.Ref.Namespace, action.Ref.Name)
	if apply.Gone(err) {
		return errMoved
	}
	if err != nil {
		return failure.New(ReasonWriteFailed, fmt.Errorf("create %s: it exists; read it: %w", action.Ref, err))
	}
	owner, owned := live.Controller()
	switch {
	case live.Deleting():
		return r.await(live, "is being deleted")
	case owned && owner.UID != r.stored.UID():
		return r.await(live, "belongs to "+owner.Kind+" "+owner.Name)
	case r.program.decorates():
		return r.meetAttachment(action.Resource, live)
	case r.family.Selector.Matches(live.Labels()):
		r.viewOf(action.Resource).Wrote(live)
		return nil
	case owned && r.program.GenerateSelector:
		return r.relabel(ctx, action.Resource, live)
	}
	return r.await(live, fmt.Sprintf("belongs to nobody, and its labels do not match %q; delete it or label it", r.family.Selector))
}

// meetAttachment is meet for a decorator. It takes nobody in: what its object
// owns without its mark is another controller's.
func (r *run) meetAttachment(resource object.Resource, live *object.Object) error {
	mark := r.family.Mark
	_, owned := live.Controller()
	switch {
	case !owned:
		return r.await(live, "belongs to nobody; delete it")
	case !mark.On(live):
		return r.await(live, fmt.Sprintf("has no annotation %s: %s, and so belongs to another controller; annotate it or delete it", mark.Key, mark.Value))
	}
	r.viewOf(resource).Wrote(live)
	return nil
}

// await has the parent wait for the name that an object has, and says why.
func (r *run) await(live *object.Object, why string) error {
	r.wanted.note(nameOf(live), r.item.Key)
	return failure.New(ReasonWriteFailed, fmt.Errorf("create %s: it exists and %s", live.Ref(), why))
}

// relabel gives back to a child the label by which it is found.
func (r *run) relabel(ctx context.Context, resource object.Resource, child *object.Object) error {
	labelled, err := child.With(fmt.Appendf(nil, "%q", r.stored.UID()), "metadata", "labels", plan.UIDLabel)
	if err != nil {
		return failure.New(ReasonWriteFailed, err)
	}
	began := r.account.Now()
	stored, err := r.tools.Writer.Update(ctx, resource, labelled)
	r.account.Wrote(began, trace.Write{Resource: resource, Part: "metadata", Before: child, After: stored, Err: err})
	if apply.Conflict(err) || apply.Gone(err) {
		return errMoved
	}
	if err != nil {
		return failure.New(ReasonWriteFailed, fmt.Errorf("label %s: %w", child.Ref(), err))
	}
	r.viewOf(resource).Wrote(stored)
	return nil
}

// viewOf is the watch of a kind of child.
func (r *run) viewOf(resource object.Resource) *store.View {
	for _, kind := range r.Controller.children {
		if kind.rule.Resource == resource {
			return kind.view
		}
	}
	return r.parents
}
