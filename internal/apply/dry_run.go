package apply

import (
	"context"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// simulatesTakeOver reports whether to simulate a take over: a dry run of it would not affect the apply that follows.
func (w *Writer) simulatesTakeOver(a plan.Action) bool { return w.options.DryRun && a.TakeOver != nil }

// simulateTakeOver runs an apply after a simulated take over. It removes the fields that the apply
// would remove, and sends the rest as an update, so that the server sets defaults.
func (w *Writer) simulateTakeOver(ctx context.Context, a plan.Action) (*object.Object, error) {
	body, live, err := w.readOwners(ctx, a, "application/json")
	if err != nil {
		return nil, err
	}
	a.Manager = managerOr(a.Manager)
	simulated, _, err := live.applied(body, a)
	if err != nil {
		return nil, err
	}
	return w.try(ctx, update(a.Resource, simulated))
}

// applied returns an object as an apply after a take over would leave it, without new defaults, and whether fields go.
func (l *managedMetadata) applied(body []byte, a plan.Action) (after *object.Object, changed bool, err error) {
	have, err := object.Decode(body)
	if err != nil {
		return nil, false, err
	}
	want, err := object.Decode(a.After.JSON())
	if err != nil {
		return nil, false, err
	}
	l.remove(have, want, a.Manager, a.TakeOver)
	left, err := object.Encode(have)
	if err != nil {
		return nil, false, err
	}
	before, err := object.Decode(body)
	if err != nil {
		return nil, false, err
	}
	after, err = plan.Overlay(left, a.After)
	return after, object.FirstDifference(before, have) != "", err
}

// remove removes the fields that only the manager owns after the take over, and that are not desired.
func (l *managedMetadata) remove(have, want map[string]any, manager string, t *plan.TakeOver) {
	entries, _ := transferFields(l.ManagedFields, manager, t)
	var mine, theirs FieldSet
	for _, e := range entries {
		if e.Manager == manager && e.Operation == operationApply && e.Subresource == "" {
			mine = e.FieldsV1
			continue
		}
		theirs = union(theirs, e.FieldsV1)
	}
	removeMembers(have, want, mine, theirs)
	metadata, _ := have["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, key := range t.RemoveAnnotations {
		delete(annotations, key)
	}
}

func removeMembers(have, want map[string]any, mine, theirs FieldSet) {
	for name := range union(mine, theirs) {
		member, isMember := strings.CutPrefix(name, "f:")
		value, there := have[member]
		if !isMember || !there {
			continue
		}
		wanted, isWanted := want[member]
		left, stays := remaining(value, wanted, mine[name], theirs[name])
		if have[member] = left; !stays && !isWanted {
			delete(have, member)
		}
	}
}

// remaining returns what is left of a value, and whether it stays if undesired. If theirs is nil, no other owns it.
func remaining(value, want any, mine, theirs FieldSet) (left any, stays bool) {
	shared := theirs != nil
	if want != nil && len(mine)+len(theirs) == 0 { // The server treats it as one value.
		return want, true
	}
	switch have := value.(type) {
	case map[string]any:
		wanted, _ := want.(map[string]any)
		removeMembers(have, wanted, mine, theirs)
		return have, shared
	case []any:
		wanted, _ := want.([]any)
		have = remainingItems(have, wanted, mine, theirs)
		return have, shared || len(mine) > 0 && len(have) > 0
	}
	return value, shared
}

// remainingItems returns the items of a list that stay.
func remainingItems(have, want []any, mine, theirs FieldSet) []any {
	left, owned := make([]any, 0, len(have)), union(mine, theirs)
	for _, item := range have {
		name, known := mine.findItem(item)
		if !known {
			name, known = owned.findItem(item)
		}
		if !known {
			left = append(left, item)
			continue
		}
		wanted, isWanted := itemIn(want, name)
		below, isMine := mine[name]
		kept, stays := remaining(item, wanted, below, theirs[name])
		// A manager that owns only fields of an item did not add the item.
		if _, added := below[self]; stays || isWanted || !isMine || len(below) > 0 && !added {
			left = append(left, kept)
		}
	}
	return left
}
