package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// maxParallelPerPlan bounds the writes of one plan, so that a parent with thousands of children does not block others.
const maxParallelPerPlan = 16

// Result is the result of one action.
type Result struct {
	Action plan.Action
	// Stored is the object as stored; nil if it is gone or the action failed.
	Stored *object.Object
	// Updated is the object after an update that an apply had to follow; nil if there was none.
	Updated *object.Object
	// CoOwned means that the apply followed because another manager owns a desired field.
	CoOwned bool
	// Err says why the action failed.
	Err error
}

// Changed reports whether the write changed the object. The server stores nothing if a write changes nothing.
func (r Result) Changed() bool {
	return r.Err == nil && (r.Stored == nil || r.Action.Before == nil || r.Stored.Version() != r.Action.Before.Version())
}

// MissingNamespaceError says that a write was skipped because its namespace, perhaps of another owner, was not created.
type MissingNamespaceError struct{ Namespace string }

func (e *MissingNamespaceError) Error() string {
	return fmt.Sprintf("waits for Namespace %s, which could not be created", e.Namespace)
}

// ApplyPlan writes a plan: one stage after another, the actions of a stage concurrently, or in order with Parallel 1.
// If an action fails, the others continue, except for those in a namespace that could not be created.
func (w *Writer) ApplyPlan(ctx context.Context, p plan.Plan) []Result {
	results := make([]Result, 0, len(p.Actions()))
	var missing []string
	waits := func(a plan.Action) bool { return slices.ContainsFunc(missing, a.WritesInto) }
	for _, stage := range p.Stages {
		waiting := lists.Filter(stage, waits)
		done := w.applyStage(ctx, slices.DeleteFunc(slices.Clone(stage), waits))
		for _, result := range done {
			if result.Err != nil && result.Action.CreatesNamespace() {
				missing = append(missing, result.Action.Ref.Name)
			}
		}
		results = append(results, done...)
		for _, a := range waiting {
			err := fmt.Errorf("%s %s: %w", a.Verb, a.Ref, &MissingNamespaceError{a.Ref.Namespace})
			results = append(results, Result{Action: a, Err: err})
		}
	}
	return results
}

func (w *Writer) applyStage(ctx context.Context, actions []plan.Action) []Result {
	results := make([]Result, len(actions))
	if len(actions) == 1 || w.options.Parallel == 1 {
		for i, action := range actions {
			results[i] = w.applyAction(ctx, action)
		}
		return results
	}
	var group errgroup.Group
	group.SetLimit(maxParallelPerPlan)
	for i, action := range actions {
		group.Go(func() error {
			results[i] = w.applyAction(ctx, action)
			return nil
		})
	}
	// The functions return no errors; the results contain them.
	_ = group.Wait()
	return results
}

func (w *Writer) applyAction(ctx context.Context, a plan.Action) Result {
	result := Result{Action: a}
	switch a.Verb {
	case plan.Create:
		result.Stored, result.Err = w.Create(ctx, a.Resource, a.After, a.Manager)
	case plan.Apply:
		result = w.updateOrApply(ctx, a)
	case plan.Delete:
		result.Stored, result.Err = w.recreate(ctx, a)
	case plan.Evict:
		result.Err = w.Evict(ctx, a.Resource, a.Before)
	case plan.Update:
		result.Stored, result.Err = w.Update(ctx, a.Resource, a.After, "")
		if apierrors.IsInvalid(result.Err) {
			result.Stored, result.Err = w.updateWithoutLeftovers(ctx, a, result.Err)
		}
	case plan.Adopt, plan.Release:
		result.Stored, result.Err = w.Update(ctx, a.Resource, a.After, "")
	default:
		result.Err = fmt.Errorf("no such action: %q", a.Verb)
	}
	if result.Err != nil {
		result.Err = fmt.Errorf("%s %s: %w", a.Verb, a.Ref, result.Err)
	}
	return result
}

// updateOrApply applies the desired fields, by an update if that has the same result.
func (w *Writer) updateOrApply(ctx context.Context, a plan.Action) Result {
	result := Result{Action: a}
	// In a dry run, the apply shows what the update would do.
	if a.Update != nil && !w.options.DryRun {
		var settled bool
		if result, settled = w.updateValues(ctx, a); settled {
			return result
		}
	}
	result.Stored, result.Err = w.serverSideApply(ctx, a)
	return result
}

// serverSideApply applies the desired fields. If the server rejects them for fields that are not desired, an update
// removes those before another apply, and what the response has as null, which an apply can do for some fields only.
func (w *Writer) serverSideApply(ctx context.Context, a plan.Action) (*object.Object, error) {
	if a.Want != nil {
		return w.applyWithoutLeftovers(ctx, a, nil)
	}
	send := w.takeOverAndApply // It first takes over the fields of previous managers.
	if a.TakeOver != nil && a.TakeOver.OnlyLeftovers {
		send = w.applyThenTakeOver
	}
	stored, err := send(ctx, a)
	if apierrors.IsInvalid(err) {
		return w.applyWithoutLeftovers(ctx, a, err)
	}
	return stored, err
}

func (w *Writer) applyWithoutLeftovers(ctx context.Context, a plan.Action, rejected error) (*object.Object, error) {
	stored, err := w.updateWithoutLeftovers(ctx, a, rejected)
	if err != nil || w.options.DryRun {
		return stored, err
	}
	a.Before = stored
	if a.After, err = plan.WithoutNulls(a.After); err != nil {
		return nil, err
	}
	if a.TakeOver == nil {
		a.TakeOver = ownFields(managerOr(a.Manager))
	}
	return w.takeOverAndApply(ctx, a)
}

func (w *Writer) takeOverAndApply(ctx context.Context, a plan.Action) (*object.Object, error) {
	if w.simulatesTakeOver(a) {
		return w.simulateTakeOver(ctx, a)
	}
	if _, err := w.takeOver(ctx, a); err != nil {
		return nil, err
	}
	return w.send(ctx, applied(a, a.After))
}

// applyThenTakeOver takes over created fields only if the apply left some that should be gone.
func (w *Writer) applyThenTakeOver(ctx context.Context, a plan.Action) (*object.Object, error) {
	stored, err := w.send(ctx, applied(a, a.After))
	if err != nil {
		return nil, err
	}
	lingers, err := plan.HasLeftovers(a.After, stored)
	if err != nil || !lingers {
		return stored, err
	}
	return w.takeOverAndApply(ctx, a)
}

// updateValues sends the update of an action, and reports whether that settles it. The apply has to follow if the object
// has changed since it was read, if the server rejects the update, or if the manager does not own all desired fields alone.
func (w *Writer) updateValues(ctx context.Context, a plan.Action) (result Result, settled bool) {
	result.Action = a
	put := update(a.Resource, a.Update)
	put.manager, put.params = a.Manager, map[string]string{"fieldValidation": metav1.FieldValidationStrict}
	body, err := w.do(ctx, put)
	switch {
	case isRejected(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return result, false
	case err != nil:
		result.Err = err
		return result, true
	}
	all, shared, err := ownersOf(body, managerOr(a.Manager), a)
	if err != nil {
		result.Err = err
		return result, true
	}
	stored, err := w.parse(body, "", "")
	if err != nil || all && !shared {
		result.Stored, result.Err = stored, err
		return result, true
	}
	result.Updated, result.CoOwned = stored, shared
	return result, false
}

// ownersOf reports whether a manager owns all fields that an action applies, and whether another one owns any.
func ownersOf(body []byte, manager string, a plan.Action) (all, shared bool, err error) {
	live, err := parseManagedMetadata(body, a)
	if err != nil {
		return false, false, err
	}
	applied, err := object.Decode(a.After.JSON())
	if err != nil {
		return false, false, err
	}
	removeUnmanaged(applied)
	var mine FieldSet
	for _, e := range live.ManagedFields {
		switch {
		case e.Manager == manager && e.Subresource == "":
			mine = union(mine, e.FieldsV1)
		case len(e.FieldsV1) > 0 && e.FieldsV1.ownsAnyOf(applied):
			shared = true
		}
	}
	return len(mine) > 0 && mine.ownsAllOf(applied), shared, nil
}

// removeUnmanaged removes the fields that no manager owns.
func removeUnmanaged(fields map[string]any) {
	delete(fields, "apiVersion")
	delete(fields, "kind")
	metadata, _ := fields["metadata"].(map[string]any)
	for _, name := range []string{"name", "namespace", "uid"} {
		delete(metadata, name)
	}
}

// ownsAllOf reports whether a manager owns all fields of a value. One without fields below is owned as one.
func (o FieldSet) ownsAllOf(applied any) bool {
	if len(o) == 0 {
		return true
	}
	switch value := applied.(type) {
	case map[string]any:
		for name, member := range value {
			if below, owned := o["f:"+name]; !owned || !below.ownsAllOf(member) {
				return false
			}
		}
	case []any:
		elements := o.elements()
		for _, item := range value {
			at := slices.IndexFunc(elements, func(e pathElement) bool { return e.matches(item) })
			if at < 0 || !elements[at].below.ownsAllOf(item) {
				return false
			}
		}
	}
	return true
}

// ownsAnyOf reports whether a manager owns a field of a value.
func (o FieldSet) ownsAnyOf(applied any) bool {
	switch value := applied.(type) {
	case map[string]any:
		for name, below := range o {
			member, given := value[strings.TrimPrefix(name, "f:")]
			if given && below.ownsAnyOf(member) {
				return true
			}
		}
	case []any:
		for _, element := range o.elements() {
			owned := func(item any) bool { return element.matches(item) && element.below.ownsAnyOf(item) }
			if slices.ContainsFunc(value, owned) {
				return true
			}
		}
	}
	return len(o) == 0
}
