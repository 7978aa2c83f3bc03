package dryrun

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// dryRunPlan sends a plan as dry runs and returns the changes. It leaves out writes that change
// nothing. desired are the children in the response.
func dryRunPlan(ctx context.Context, r *run, p plan.Plan, desired []*object.Object) []Change {
	created := createdNamespaces(p)
	inNewNamespace := func(a plan.Action) bool { return a.Before == nil && created[a.Ref.Namespace] }
	var refused []string
	waits := func(a plan.Action) bool { return slices.ContainsFunc(refused, a.WritesInto) }
	var all []Change
	for _, stage := range p.Stages {
		checked := slices.DeleteFunc(slices.Clone(stage), func(a plan.Action) bool { return inNewNamespace(a) || waits(a) })
		results := r.Writer.ApplyPlan(ctx, plan.Plan{Stages: [][]plan.Action{checked}})
		for _, action := range stage {
			if waits(action) {
				change := unchecked(action, "")
				change.Held = "it waits for Namespace " + action.Ref.Namespace + ", which the API server rejects"
				all = append(all, change)
				continue
			}
			if inNewNamespace(action) {
				all = append(all, unchecked(action, "its namespace does not exist yet"))
				continue
			}
			if change, differs := dryRunChange(results[0]); differs {
				change.markRecreated(action, desired)
				all = append(all, change)
			}
			if results[0].Err != nil && action.CreatesNamespace() {
				refused = append(refused, action.Ref.Name)
			}
			results = results[1:]
		}
	}
	return all
}

func createdNamespaces(p plan.Plan) map[string]bool {
	created := map[string]bool{}
	for _, action := range slices.Concat(p.Stages...) {
		if action.CreatesNamespace() {
			created[action.Ref.Name] = true
		}
	}
	return created
}

func changeOf(a plan.Action) Change {
	return Change{
		Action: verb(a), Reason: a.Reason,
		Ref: refOf(a.Resource.Ref(a.Ref.Namespace, a.Ref.Name)),
	}
}

func verb(a plan.Action) string {
	switch {
	case a.Verb == plan.Apply && a.Before == nil:
		return string(plan.Create)
	case a.Verb == plan.Apply:
		return string(plan.Update)
	}
	return string(a.Verb)
}

// unchecked returns a change as planned, without a dry run.
func unchecked(a plan.Action, why string) Change {
	c := changeOf(a)
	c.Unchecked = why
	if a.Verb == plan.Delete || a.Verb == plan.Evict {
		return c
	}
	planned, err := plan.Diff(a)
	if err != nil {
		c.Error = newProblem(err)
	}
	c.Fields = fields(planned)
	return c
}

// dryRunChange returns the change in a dry run, and whether there is one.
func dryRunChange(result apply.Result) (Change, bool) {
	a := result.Action
	if a.Verb == plan.Evict && apply.TooManyRequests(result.Err) {
		c := changeOf(a)
		c.Reason = strings.TrimPrefix(c.Reason+"; blocked by its PodDisruptionBudget", "; ")
		return c, true
	}
	if result.Err != nil {
		c := unchecked(a, "")
		c.Error = newProblem(fmt.Errorf("rejected by the API server: %w", result.Err))
		return c, true
	}
	c := changeOf(a)
	switch a.Verb {
	case plan.Evict:
		return c, true
	case plan.Delete:
		differs := recreateNeeded(&c, result)
		return c, differs
	}
	if a.Before != nil && result.Stored.Digest() == a.Before.Digest() {
		return c, false
	}
	changes, err := plan.Compare(a.Before, result.Stored)
	if err != nil {
		c.Error = newProblem(err)
		return c, true
	}
	c.Fields = fields(changes)
	if a.Before == nil {
		c.markDefaults(a)
	} else {
		c.correctReason()
	}
	return c, true
}

// onlyAnnotationsDiffer is the reason of a write that changes no field users read.
const onlyAnnotationsDiffer = "only Setpoint's annotations differ"

// correctReason replaces the reason of an update by a field that the API server would change. The
// planned one may only differ in notation, such as a quantity.
func (c *Change) correctReason() {
	planned, differs := strings.CutSuffix(c.Reason, " differs")
	switch {
	case c.Action != string(plan.Update) || !differs:
	case len(c.Fields) == 0:
		c.Reason = onlyAnnotationsDiffer
	case !slices.ContainsFunc(c.Fields, func(f FieldChange) bool { return strings.HasPrefix(f.Path, planned) }):
		c.Reason = c.Fields[0].Path + " differs"
	}
}

// recreateNeeded reports whether the dry run shows that an object is recreated, rather than
// updated or unchanged.
func recreateNeeded(c *Change, result apply.Result) bool {
	a := result.Action
	if a.DryRunVerb == "" || result.Stored == nil || result.Stored.Deleting() {
		return true
	}
	c.Action, c.Reason = string(plan.Update), onlyAnnotationsDiffer
	return result.Stored.Digest() != a.Before.Digest()
}

// markRecreated marks a deletion of an object that is still desired, and adds the fields that
// differ.
func (c *Change) markRecreated(a plan.Action, desired []*object.Object) {
	if c.Action != string(plan.Delete) {
		return
	}
	i := slices.IndexFunc(desired, func(o *object.Object) bool {
		sameNamespace := o.Namespace() == "" || o.Namespace() == a.Ref.Namespace
		return o.GroupKind() == a.Resource.GroupKind() && o.Name() == a.Ref.Name && sameNamespace
	})
	if i < 0 {
		return
	}
	c.Action = "recreate"
	planned, err := plan.Diff(plan.Action{Verb: plan.Apply, Ref: a.Ref, Before: a.Before, After: desired[i]})
	if err != nil {
		c.Error = newProblem(err)
	}
	c.Fields = fields(planned)
}

// markDefaults marks fields that are not desired but set by the API server.
func (c *Change) markDefaults(a plan.Action) {
	planned, err := plan.Diff(a)
	if err != nil {
		c.Error = newProblem(err)
		return
	}
	desired := make(map[string]bool, len(planned))
	for _, change := range planned {
		desired[change.Path] = true
	}
	for i := range c.Fields {
		c.Fields[i].Default = !desired[c.Fields[i].Path]
	}
}
