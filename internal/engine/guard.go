package engine

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
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// guarded takes out of a plan the deletions that are held, or that wait for those of
// other parents.
func (r *run) guarded(todo plan.Plan) plan.Plan {
	r.ruling, r.removed = ruling{}, nil
	if r.stance != caring {
		r.deletions.drop(r.claimant())
		return todo
	}
	removed := r.unexplained(todo)
	now := r.deletions.rule(r.claimant(), removed, plan.Annotation(r.stored, setpoint.AnnotationAllowDeletions))
	if !now.held && now.wait == 0 {
		return todo
	}
	r.ruling, r.removed = now, removed
	return todo.Without(removed)
}

func (r *run) claimant() claimant { return claimant{r.Controller, r.item.Key} }

// unexplained are the deletions of a plan that nothing but the hook's response
// explains: no change of the parent's spec does. A change explains none that the hook
// wanted before it, and that are held.
func (r *run) unexplained(todo plan.Plan) []plan.Action {
	removals := todo.Removals()
	if r.noteEdit() {
		return r.deletions.heldAmong(r.claimant(), removals)
	}
	return removals
}

// noteEdit says whether the spec of the parent has changed lately, or since the last
// run that succeeded. What is not known is taken for unchanged.
func (r *run) noteEdit() bool {
	m, spec, now := r.memory, specOf(r.stored), r.tools.Now()
	if m.spec != spec {
		if m.spec != 0 || r.editedUnseen() {
			m.edited, m.editPending = now, true
		}
		m.spec = spec
	}
	return m.editPending || !m.edited.IsZero() && now.Sub(m.edited) < deletionWindow
}

// editedUnseen says that the parent was edited since its status was stored, by this
// controller: custom resources of composites alone have a status that is all ours.
func (r *run) editedUnseen() bool {
	if r.program.decorates() || !r.program.Parent.Custom || !r.program.Parent.Status {
		return false
	}
	observed, err := strconv.ParseInt(string(r.stored.Field("status", "observedGeneration")), 10, 64)
	return err == nil && observed > 0 && observed < r.stored.Generation()
}

// specOf tells specs of one object apart: by its generation, or by all that is
// neither metadata nor status where the kind has none.
func specOf(o *object.Object) uint64 {
	if o.Generation() > 0 {
		return uint64(o.Generation())
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(o.JSON(), &fields) != nil {
		return o.Intent() // The cache holds nothing but objects.
	}
	delete(fields, "metadata")
	delete(fields, "status")
	var spec []byte
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		spec = append(append(spec, name...), fields[name]...)
	}
	return max(object.DigestOf(spec), 1)
}

// asPlanned is a plan as it is recorded: with the deletions that are held.
func (r *run) asPlanned(rest, whole plan.Plan) plan.Plan {
	if len(r.removed) == 0 {
		return rest
	}
	why := "; held by the deletion guard"
	if !r.ruling.held {
		why = "; the deletion guard waits for those of other parents"
	}
	held := make([]plan.Action, len(r.removed))
	for i, a := range r.removed {
		a.Reason += why
		held[i] = a
	}
	return plan.Plan{Stages: append([][]plan.Action{held}, rest.Stages...), Equal: whole.Equal}
}

// waitError ends a run whose deletions wait.
type waitError struct{ delay time.Duration }

func (e *waitError) Error() string { return "deletions wait for those of other parents" }

// heldBack is the error of a run that did all but delete.
func (r *run) heldBack() error {
	if len(r.removed) == 0 {
		return nil
	}
	r.memory.answered = 0
	if !r.ruling.held {
		return &waitError{r.ruling.wait}
	}
	return failure.New(ReasonDeletionsHeld, r.deletionsHeld())
}

// maxListed is how many children an error lists.
const maxListed = 3

func (r *run) deletionsHeld() error {
	var names []string
	for _, a := range r.removed[:min(len(r.removed), maxListed)] {
		names = append(names, a.Ref.String())
	}
	list := strings.Join(names, ", ")
	if more := len(r.removed) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	what := "deletions"
	if len(r.removed) == 1 {
		what = "deletion"
	}
	return errors.New(strconv.Itoa(len(r.removed)) + " " + what + " held by the deletion guard: the response of the hook leaves out " + list +
		"; correct the hook, or confirm with the annotation " + setpoint.AnnotationAllowDeletions + "=" + r.ruling.value)
}

// CountAllChildren counts the children of all parents, from the caches.
func (c *Controller) CountAllChildren() int {
	n := 0
	for parent := range c.parents.All() {
		if c.program.stanceOn(parent) == indifferent {
			continue
		}
		n += c.countOwned(parent)
	}
	return n
}

// countKind counts those of one kind. A decorator counts its attachments.
func (c *Controller) countKind(of kind, parent *object.Object) int {
	if !c.program.decorates() {
		return of.view.CountOwned(parent.UID())
	}
	n := 0
	for _, o := range of.view.Owned(parent.UID()) {
		n += count(c.program.Mark.On(o))
	}
	return n
}
