package composite

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// guardDeletions removes from a plan the deletions that the guard holds or delays.
func (r *run) guardDeletions(todo plan.Plan) plan.Plan {
	r.guardDecision, r.withheld = guardDecision{}, nil
	if r.Phase != controller.PhaseManaged {
		r.deletionGuard.drop(r.guardedParent())
		return todo
	}
	removed := r.unexplainedDeletions(todo)
	if r.dry != nil {
		r.dry.removals = removed // Whether they are too many depends on other parents.
		return todo
	}
	confirms := plan.Annotation(r.Stored, setpoint.AnnotationAllowDeletions)
	now := r.deletionGuard.decide(r.guardedParent(), r.isMoved(r.Stored), removed, confirms)
	if !now.held && now.wait == 0 {
		return todo
	}
	r.guardDecision, r.withheld = now, removed
	return todo.Without(removed)
}

func (r *run) guardedParent() guardedParent { return guardedParent{r.Controller, r.Item.Key} }

// unexplainedDeletions returns the deletions that only the hook response explains, not an edit of
// the parent's spec. An edit does not explain deletions that were held before it.
func (r *run) unexplainedDeletions(todo plan.Plan) []plan.Action {
	removals := todo.Removals()
	if r.noteSpecChange() {
		return r.deletionGuard.filterHeld(r.guardedParent(), removals)
	}
	return removals
}

// noteSpecChange reports whether the parent's spec changed recently or since the last successful
// run. An unknown former spec counts as unchanged.
func (r *run) noteSpecChange() bool {
	m, spec, now := r.memory, specDigest(r.Stored), r.tools.Now()
	if m.failures.version != r.logic.Version {
		m.editedAt, m.editPending = time.Time{}, false // The edit explains what the version before wanted.
	}
	if m.specDigest != spec {
		if m.specDigest != 0 || r.editedSinceStatus() {
			m.editedAt, m.editPending = now, true
		}
		m.specDigest = spec
	}
	return m.editPending || !m.editedAt.IsZero() && now.Sub(m.editedAt) < deletionWindow
}

// editedSinceStatus reports whether the parent was edited after this controller stored its status.
// Only the status of custom resources of composites belongs to the controller.
func (r *run) editedSinceStatus() bool {
	if r.program.isDecorator() || !r.program.Parent.Custom || !r.program.Parent.Status {
		return false
	}
	observed, err := strconv.ParseInt(string(r.Stored.Field("status", "observedGeneration")), 10, 64)
	return err == nil && observed > 0 && observed < r.Stored.Generation()
}

// specDigest returns the generation, or a digest of all fields but metadata and status for kinds
// without one.
func specDigest(o *object.Object) uint64 {
	if o.Generation() > 0 {
		return uint64(o.Generation())
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(o.JSON(), &fields) != nil {
		return o.IntentDigest() // The cache contains only JSON objects.
	}
	delete(fields, "metadata")
	delete(fields, "status")
	var spec []byte
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		spec = append(append(spec, name...), fields[name]...)
	}
	return max(object.DigestOf(spec), 1)
}

// recordedPlan returns the plan for the record, with the withheld deletions.
func (r *run) recordedPlan(rest, whole plan.Plan) plan.Plan {
	if len(r.withheld) == 0 {
		return rest
	}
	why := "; held by the deletion guard"
	if !r.guardDecision.held {
		why = "; delayed by the deletion guard"
	}
	held := make([]plan.Action, len(r.withheld))
	for i, a := range r.withheld {
		a.Reason += why
		held[i] = a
	}
	return plan.Plan{Stages: append([][]plan.Action{held}, rest.Stages...), Equal: whole.Equal}
}

// deletionsPendingError ends a run whose deletions delayed by the deletion guard.
type deletionsPendingError struct{ delay time.Duration }

func (e *deletionsPendingError) Error() string { return "deletions delayed by the deletion guard" }

// withheldError returns the error of a run whose deletions are withheld; nil if there are none.
func (r *run) withheldError() error {
	if len(r.withheld) == 0 {
		return nil
	}
	r.memory.syncedInput = 0
	if !r.guardDecision.held {
		return &deletionsPendingError{r.guardDecision.wait}
	}
	return failure.WithReason(ReasonDeletionsHeld, r.deletionsHeldError())
}

// maxListed is how many children an error names.
const maxListed = 3

func (r *run) deletionsHeldError() error {
	var names []string
	for _, a := range r.withheld[:min(len(r.withheld), maxListed)] {
		names = append(names, a.Ref.String())
	}
	list := strings.Join(names, ", ")
	if more := len(r.withheld) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	what := "deletions"
	if len(r.withheld) == 1 {
		what = "deletion"
	}
	return errors.New(strconv.Itoa(len(r.withheld)) + " " + what + " held by the deletion guard: the hook response leaves out " + list +
		"; fix the hook, or confirm with the annotation " + setpoint.AnnotationAllowDeletions + "=" + r.guardDecision.value)
}

// CountAllChildren counts the cached children of all parents.
func (c *Controller) CountAllChildren() int { return c.countChildren(false) }

// countChildren counts the cached children of all parents, or of those that have moved in a rollout.
func (c *Controller) countChildren(moved bool) int {
	n := 0
	for parent := range c.parents.All() {
		if c.PhaseOf(parent) == controller.PhaseIgnored || moved && !c.isMoved(parent) {
			continue
		}
		n += c.countOwned(parent)
	}
	return n
}

// isMoved reports whether a parent has moved to the new version in a rollout of the logic.
func (c *Controller) isMoved(parent *object.Object) bool {
	return c.program.Former != nil && c.tools.Versions.hasMoved(parent)
}
