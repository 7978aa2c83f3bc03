package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// History is the revisions of one parent.
type History struct {
	// Latest is the one the parent is at.
	Latest Revision
	// Former are the others that are kept, the latest of them first. Some may
	// have no claims left.
	Former    []Revision
	family    *Planner
	revisions Revisions
}

// History makes out the revisions of a parent. kept are the ControllerRevisions
// that belong to it, observed its children.
//
// Where the parent has come to be at another revision, the one it was at claims
// the children that followed it: all that no former one claims. Until that is
// stored, nothing may be done about the children.
func (k Revisions) History(f *Planner, kept, observed []*object.Object) (History, error) {
	latest, err := k.current(f.Parent)
	if err != nil {
		return History{}, err
	}
	h := History{Latest: latest, family: f, revisions: k}
	for _, o := range kept {
		if Annotation(o, controllerAnnotation) != k.Controller || o.Deleting() {
			continue
		}
		r, err := readRevision(o, f.Rules)
		if err != nil {
			return History{}, err
		}
		if r.Name == latest.Name {
			h.Latest.Stored, h.Latest.Number = o, r.Number
			continue
		}
		h.Former = append(h.Former, r)
	}
	if len(h.Former) == 0 && h.Latest.Stored == nil {
		// What children there are were made by somebody of whom nothing is kept.
		h.Former = []Revision{{Name: k.name(f.Parent, []byte(unknown)), Claims: Claims{}}}
	}
	slices.SortFunc(h.Former, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), cmp.Compare(a.Name, b.Name))
	})
	h.updateLatest(observed)
	return h, nil
}

// updateLatest makes the latest revision the one of the highest number. The one it takes
// the place of claims what followed it. What it claims already it does from a
// turn that was interrupted; some of it may be missing now.
func (h *History) updateLatest(observed []*object.Object) {
	if len(h.Former) == 0 {
		h.Latest.Number = max(h.Latest.Number, 1)
		return
	}
	replaced := &h.Former[0]
	if replaced.Number < h.Latest.Number {
		return
	}
	h.Latest.Number = replaced.Number + 1
	for _, child := range observed {
		rule, _ := h.family.Rules.For(child.GroupKind())
		if rule.Method.Rolling() && h.family.controls(child) && !h.claimed(child) {
			replaced.Claims[idOf(child)] = true
		}
	}
}

func (h *History) claimed(child *object.Object) bool {
	return slices.ContainsFunc(h.Former, func(r Revision) bool { return r.Claims.Has(child) })
}

// ParentAt is the parent as a hook is shown it at a former revision.
func (h *History) ParentAt(parent *object.Object, former Revision) (*object.Object, error) {
	return h.revisions.parentAt(parent, former)
}

// Writes plans what it takes to have former revisions claim no more and no less
// than kept, which has an item for each of Former, and to store the latest one.
// It is to be carried out before anything is done about the children.
//
// What a former revision claims is stored before a later one is, which is what
// makes it a former one: found half done, it is done once more. A child is let
// go of before it is moved: found in between, it follows the latest revision.
func (h *History) Writes(kept []Claims) (Plan, error) {
	var claims, latest, unused []Action
	for i, r := range h.Former {
		action, err := h.updateClaims(r, kept[i])
		switch {
		case err != nil:
			return Plan{}, err
		case action.Verb == Delete:
			unused = append(unused, action)
		case action.Verb != "":
			claims = append(claims, action)
		}
	}
	action, err := h.storeLatest()
	if err != nil {
		return Plan{}, err
	}
	if action.Verb != "" {
		latest = append(latest, action)
	}
	var p Plan
	for _, stage := range [][]Action{claims, latest, unused} {
		if len(stage) > 0 {
			p.Stages = append(p.Stages, stage)
		}
	}
	return p, nil
}

// updateClaims plans to have a former revision claim these children.
func (h *History) updateClaims(r Revision, claims Claims) (action Action, err error) {
	if len(claims) == 0 {
		return r.deletion(), nil
	}
	action = Action{Verb: Update, Resource: ControllerRevisions, Before: r.Stored, After: r.Stored, Reason: "other children follow it"}
	if r.Stored == nil {
		action.Verb, action.Reason = Create, "its children have to wait for their turn"
		if action.After, err = h.revisions.create(h.family.Parent, r); err != nil {
			return Action{}, err
		}
	}
	action.Ref = action.After.Ref()
	text, err := claims.encode()
	if err != nil {
		return Action{}, fmt.Errorf("%s: %w", action.Ref, err)
	}
	if text == Annotation(action.After, claimsAnnotation) {
		return Action{}, nil
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return Action{}, err
	}
	action.After, err = action.After.With(quoted, "metadata", "annotations", claimsAnnotation)
	return action, err
}

// deletion plans to delete a revision without claims: it is not needed any more.
func (r Revision) deletion() Action {
	if r.Stored == nil {
		return Action{}
	}
	return Action{Verb: Delete, Resource: ControllerRevisions, Ref: r.Stored.Ref(), Before: r.Stored, Reason: "no child follows it any more"}
}

// storeLatest plans to create the latest revision, or to make a former one the
// latest again: one of the highest number, that claims nothing by name.
func (h *History) storeLatest() (Action, error) {
	r := h.Latest
	if r.Stored == nil {
		created, err := h.revisions.create(h.family.Parent, r)
		if err != nil {
			return Action{}, err
		}
		return Action{Verb: Create, Resource: ControllerRevisions, Ref: created.Ref(), After: created,
			Reason: "the parent is at a new revision"}, nil
	}
	number, err := numberOf(r.Stored)
	if err != nil || number == r.Number && Annotation(r.Stored, claimsAnnotation) == "" {
		return Action{}, err
	}
	again, err := r.Stored.Edited(
		object.Edit{Value: strconv.AppendInt(nil, r.Number, 10), Path: []string{"revision"}},
		object.Edit{Path: []string{"metadata", "annotations", claimsAnnotation}},
	)
	return Action{Verb: Update, Resource: ControllerRevisions, Ref: r.Stored.Ref(), Before: r.Stored, After: again,
		Reason: "the parent is at it again"}, err
}

func readRevision(o *object.Object, rules Rules) (Revision, error) {
	number, err := numberOf(o)
	if err != nil {
		return Revision{}, err
	}
	claims, err := readClaims(Annotation(o, claimsAnnotation), rules)
	if err != nil {
		return Revision{}, fmt.Errorf("%s: metadata.annotations[%q]: %w; without it, the children it lists follow the latest revision",
			o.Ref(), claimsAnnotation, err)
	}
	return Revision{Name: o.Name(), Number: number, Claims: claims, Stored: o}, nil
}

func numberOf(o *object.Object) (int64, error) {
	number, err := strconv.ParseInt(string(o.Field("revision")), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: revision: %w", o.Ref(), err)
	}
	return number, nil
}
