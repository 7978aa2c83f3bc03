package composite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// family is what a run observes of the children of its parent.
type family struct {
	*writes

	// byKind are the children in the order of the rules.
	byKind [][]*object.Object
	// revisions are the stored revisions of the parent.
	revisions []*object.Object
	// selectorErr is why the parent has no selector of children.
	selectorErr error
}

// claim finds the children of the parent. It adopts orphans that match the selector and releases others.
func (f *family) claim(ctx context.Context) error {
	if f.selectorErr != nil {
		return failure.WithReason(ReasonInvalidParent, f.selectorErr)
	}
	if err := f.recoverLostChildren(ctx); err != nil {
		return err
	}
	changes, err := f.listChildren()
	if err != nil || len(changes) == 0 {
		return err
	}
	if err := f.applyClaims(ctx, changes); err != nil {
		return err
	}
	_, err = f.listChildren()
	return err
}

// listChildren reads the children from the caches and returns the writes that claim. Only composites that sync adopt.
func (f *family) listChildren() ([]plan.Action, error) {
	var changes []plan.Action
	f.byKind, f.revisions = f.byKind[:0], f.revisionsOf(f.Stored)
	for kind, owned := range f.OwnedBy(f.Stored) {
		resource := f.program.Children[kind].Resource
		if f.dry != nil {
			owned = f.dry.Owned(resource, f.Stored.UID(), owned)
		}
		var orphans []*object.Object
		if !f.program.isDecorator() && f.Phase != controller.PhaseFinalizing {
			orphans = f.Orphans(kind, f.Stored.Namespace(), f.planner.Selector)
		}
		claim, err := f.planner.Claim(resource, owned, orphans)
		if err != nil {
			return nil, fmt.Errorf("claim %s: %w", resource, err)
		}
		f.byKind = append(f.byKind, claim.Children)
		changes = append(changes, claim.Changes...)
	}
	return changes, nil
}

// applyClaims adopts and releases. A deleted parent adopts none: the garbage collector would delete them.
func (f *family) applyClaims(ctx context.Context, changes []plan.Action) error {
	live, err := f.writer.Get(ctx, f.program.Parent, f.Stored.Namespace(), f.Stored.Name())
	switch {
	case err != nil && !apply.NotFound(err):
		return fmt.Errorf("read %s before adopting children: %w", f.Stored.Ref(), err)
	case err != nil, live.UID() != f.Stored.UID(), live.Deleting():
		return controller.ErrConflict
	}
	claims := plan.Plan{Stages: [][]plan.Action{changes}}
	f.Record.Planned(claims, 0)
	return f.observeResults(ctx, f.apply(ctx, claims))
}

func (f *family) observedChildren() []*object.Object { return slices.Concat(f.byKind...) }

func (f *family) unwritten(todo plan.Plan) int {
	written := lists.Filter(todo.Actions(), func(a plan.Action) bool { return a.Before != nil })
	return max(f.countChildren()-len(written), 0)
}

// waitingChildren names the first child that is being deleted, and its finalizers; "" if there is none.
func (f *family) waitingChildren() string {
	going := lists.Filter(f.observedChildren(), (*object.Object).Deleting)
	if len(going) == 0 {
		return ""
	}
	text := going[0].Ref().String()
	if names := going[0].Finalizers(); len(names) > 0 {
		text += " with the finalizers " + strings.Join(names, ", ")
	}
	if len(going) > 1 {
		text += fmt.Sprintf(" and %d more", len(going)-1)
	}
	return "waits for the deletion of " + text
}

func (f *family) forgetGone() {
	if max(len(f.memory.upToDate), len(f.memory.coOwned)) <= f.countChildren() {
		return
	}
	present := make(map[uint64]bool, f.countChildren())
	for _, child := range f.observedChildren() {
		present[childDigest(child)] = true
	}
	f.memory.upToDate = slices.DeleteFunc(f.memory.upToDate, func(one upToDateChild) bool { return !present[one.child] })
	maps.DeleteFunc(f.memory.coOwned, func(child uint64, _ bool) bool { return !present[child] })
}

func (f *family) countChildren() int {
	n := 0
	for _, children := range f.byKind {
		n += len(children)
	}
	return n
}

// leavesChildren reports whether the children of a deleted parent belong to the garbage collector:
// there is no finalize hook, or the user chose foreground or orphan deletion.
func leavesChildren(phase controller.Phase, parent *object.Object) bool {
	return parent.Deleting() && (phase != controller.PhaseFinalizing || parent.HasFinalizer("foregroundDeletion") ||
		parent.HasFinalizer("orphan"))
}
