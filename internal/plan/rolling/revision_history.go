package rolling

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// History is the revisions of one parent.
type History struct {
	// Latest is the revision of the current spec.
	Latest Revision
	// Previous are the other stored revisions, newest first. Some may have no claims left.
	Previous  []Revision
	family    *plan.Planner
	revisions Revisions
}

// History returns the revision history of a parent from its ControllerRevisions and its children.
//
// If the parent has a new revision, its previous one claims the children that followed it, which
// are those without a claim. Nothing may be written to the children until that is stored.
func (k Revisions) History(f *plan.Planner, kept, observed []*object.Object) (History, error) {
	latest, err := k.current(f.Parent)
	if err != nil {
		return History{}, err
	}
	h := History{Latest: latest, family: f, revisions: k}
	for _, o := range kept {
		if plan.Annotation(o, controllerAnnotation) != k.Controller || o.Deleting() {
			continue
		}
		claims, err := readClaims(plan.Annotation(o, claimsAnnotation), f.Rules)
		if err != nil {
			return History{}, fmt.Errorf("%s: metadata.annotations[%q]: %w; without it, the children it lists follow the latest revision",
				o.Ref(), claimsAnnotation, err)
		}
		r := Revision{Name: o.Name(), Number: o.Revision(), Claims: claims, Stored: o}
		if r.Name == latest.Name {
			h.Latest.Stored, h.Latest.Number = o, r.Number
			continue
		}
		h.Previous = append(h.Previous, r)
	}
	if len(h.Previous) == 0 && h.Latest.Stored == nil {
		// Nothing is known about the origin of existing children.
		h.Previous = []Revision{{Name: k.name(f.Parent, unknown), Claims: Claims{}}}
	}
	slices.SortFunc(h.Previous, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), cmp.Compare(a.Name, b.Name))
	})
	h.updateLatest(observed)
	return h, nil
}

// updateLatest gives the latest revision the highest number. The revision that it replaces claims
// its children. Some of these claims may be stored by a run that was interrupted.
func (h *History) updateLatest(observed []*object.Object) {
	if len(h.Previous) == 0 {
		h.Latest.Number = max(h.Latest.Number, 1)
		return
	}
	replaced := &h.Previous[0]
	if replaced.Number < h.Latest.Number {
		return
	}
	h.Latest.Number = replaced.Number + 1
	for _, child := range observed {
		rule, _ := h.family.Rules.For(child.GroupKind())
		claimed := slices.ContainsFunc(h.Previous, func(r Revision) bool { return r.Claims.Has(child) })
		if rule.Method.Rolling() && h.family.Controls(child) && !claimed {
			replaced.Claims[plan.KeyOf(child)] = true
		}
	}
}

// ParentAt returns the parent with the fields of a previous revision, for the hook.
func (h *History) ParentAt(parent *object.Object, previous Revision) (*object.Object, error) {
	edits := lists.Map(h.revisions.paths(), func(path []string) object.Edit {
		return object.Edit{Value: previous.Stored.Field(slices.Concat([]string{"data", "parentPatch"}, path)...), Path: path}
	})
	then, err := parent.Edited(edits...)
	if err != nil {
		return nil, fmt.Errorf("build %s at revision %s: %w", parent.Ref(), previous.Name, err)
	}
	return then, nil
}

// Writes plans the writes that store the claims of the previous revisions, one item of kept for each,
// and the latest revision. They come before writes to the children.
//
// Claims of previous revisions are stored before a later revision, so a run that is interrupted is repeated. A child is
// released before it is updated: if the run is interrupted in between, the child follows the latest revision.
func (h *History) Writes(kept []Claims) (plan.Plan, error) {
	var claims, latest, unused []plan.Action
	for i, r := range h.Previous {
		action, err := h.updateClaims(r, kept[i])
		switch {
		case err != nil:
			return plan.Plan{}, err
		case action.Verb == plan.Delete:
			unused = append(unused, action)
		case action.Verb != "":
			claims = append(claims, action)
		}
	}
	action, err := h.storeLatest()
	if err != nil {
		return plan.Plan{}, err
	}
	if action.Verb != "" {
		latest = append(latest, action)
	}
	stages := lists.Filter([][]plan.Action{claims, latest, unused}, func(stage []plan.Action) bool { return len(stage) > 0 })
	return plan.Plan{Stages: stages}, nil
}

// updateClaims plans the update of a previous revision's claims, or its deletion; the zero Action if nothing is to do.
func (h *History) updateClaims(r Revision, claims Claims) (plan.Action, error) {
	switch {
	case len(claims) == 0 && r.Stored == nil:
		return plan.Action{}, nil
	case len(claims) == 0:
		return writeOf(plan.Delete, r.Stored, nil, "it has no children left"), nil
	}
	verb, reason, after := plan.Update, "its children changed", r.Stored
	if r.Stored == nil {
		verb, reason = plan.Create, "its children wait for their update"
		var err error
		if after, err = h.revisions.create(h.family.Parent, r); err != nil {
			return plan.Action{}, err
		}
	}
	text, err := claims.encode()
	if err != nil {
		return plan.Action{}, fmt.Errorf("%s: %w", after.Ref(), err)
	}
	if text == plan.Annotation(after, claimsAnnotation) {
		return plan.Action{}, nil
	}
	if after, err = after.WithValue(text, "metadata", "annotations", claimsAnnotation); err != nil {
		return plan.Action{}, err
	}
	return writeOf(verb, r.Stored, after, reason), nil
}

// storeLatest plans to create the latest revision, or to give a previous one the highest number and no claims.
func (h *History) storeLatest() (plan.Action, error) {
	r := h.Latest
	if r.Stored == nil {
		created, err := h.revisions.create(h.family.Parent, r)
		if err != nil {
			return plan.Action{}, err
		}
		return writeOf(plan.Create, nil, created, "the parent is at a new revision"), nil
	}
	if r.Stored.Revision() == r.Number && plan.Annotation(r.Stored, claimsAnnotation) == "" {
		return plan.Action{}, nil
	}
	again, err := r.Stored.Edited(
		object.Edit{Value: strconv.AppendInt(nil, r.Number, 10), Path: []string{"revision"}},
		object.Edit{Path: []string{"metadata", "annotations", claimsAnnotation}},
	)
	return writeOf(plan.Update, r.Stored, again, "the parent was reverted to it"), err
}

// writeOf returns a write of a revision; before or after may be nil.
func writeOf(verb plan.Verb, before, after *object.Object, reason string) plan.Action {
	return plan.Action{Verb: verb, Resource: plan.ControllerRevisions, Ref: cmp.Or(before, after).Ref(), Before: before, After: after,
		Reason: reason}
}
