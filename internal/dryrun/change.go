package dryrun

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// dryRunPlan has the API server say what would come of a plan. What turns out to change
// nothing is left out. desired are the children of the reply.
func dryRunPlan(ctx context.Context, r *manager.DryRun, p plan.Plan, desired []*object.Object) []Change {
	created := createdNamespaces(p)
	inNewNamespace := func(a plan.Action) bool { return a.Before == nil && created[a.Ref.Namespace] }
	var refused []string
	waits := func(a plan.Action) bool { return slices.ContainsFunc(refused, a.WritesInto) }
	var all []Change
	for _, stage := range p.Stages {
		checked := slices.DeleteFunc(slices.Clone(stage), func(a plan.Action) bool { return inNewNamespace(a) || waits(a) })
		results := r.Apply(ctx, plan.Plan{Stages: [][]plan.Action{checked}})
		for _, action := range stage {
			if waits(action) {
				all = append(all, waitingForNamespace(action))
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

// waitingForNamespace is a change that waits for a namespace that cannot be created.
func waitingForNamespace(a plan.Action) Change {
	c := unchecked(a, "")
	c.Held = "it waits for Namespace " + a.Ref.Namespace + ", which the API server refuses: nothing is written into one that is another's"
	return c
}

// createdNamespaces are the namespaces that a plan makes.
func createdNamespaces(p plan.Plan) map[string]bool {
	created := map[string]bool{}
	for _, stage := range p.Stages {
		for _, action := range stage {
			if action.CreatesNamespace() {
				created[action.Ref.Name] = true
			}
		}
	}
	return created
}

func changeOf(a plan.Action) Change {
	return Change{
		Action: verb(a), Reason: a.Reason,
		Ref: Ref{APIVersion: a.Resource.APIVersion(), Kind: a.Ref.Kind, Namespace: a.Ref.Namespace, Name: a.Ref.Name},
	}
}

// verb is what an action does, in the words of the report.
func verb(a plan.Action) string {
	switch {
	case a.Verb == plan.Apply && a.Before == nil:
		return string(plan.Create)
	case a.Verb == plan.Apply:
		return string(plan.Update)
	}
	return string(a.Verb)
}

// unchecked is a change as it is planned.
func unchecked(a plan.Action, why string) Change {
	c := changeOf(a)
	c.Unchecked = why
	if a.Verb == plan.Delete {
		return c
	}
	planned, err := plan.Diff(a)
	if err != nil {
		c.Error = newProblem(err)
	}
	c.Fields = fields(planned)
	return c
}

// dryRunChange is a change as the API server has it, and whether it is one.
func dryRunChange(result apply.Result) (Change, bool) {
	a := result.Action
	if result.Err != nil {
		c := unchecked(a, "")
		c.Error = newProblem(fmt.Errorf("the API server refuses it: %w", result.Err))
		return c, true
	}
	c := changeOf(a)
	if a.Verb == plan.Delete {
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

// onlyAnnotationsDiffer is why an object is written where no field that users read differs.
const onlyAnnotationsDiffer = "only what Setpoint remembers in annotations differs"

// correctReason has the reason of an update name a field that the API server would change. That
// of the plan may be one that is only written in another way, such as a quantity.
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

// recreateNeeded says whether an object that was to be deleted and made anew would be,
// after it was tried: it may be left alone, or be changed in place.
func recreateNeeded(c *Change, result apply.Result) bool {
	a := result.Action
	if a.DryRunVerb == "" || result.Stored == nil || result.Stored.Deleting() {
		return true
	}
	c.Action, c.Reason = string(plan.Update), onlyAnnotationsDiffer
	return result.Stored.Digest() != a.Before.Digest()
}

// markRecreated tells an object that is deleted to be created anew from one that is
// not desired any more, and says why it is.
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

// markDefaults tells the fields that are desired from those that the API server
// adds.
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
