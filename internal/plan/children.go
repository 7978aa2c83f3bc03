package plan

import (
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// UpToDate reports whether an observed child is known to match a desired one, given by its digest.
// Such children are not compared.
type UpToDate func(observed *object.Object, desired uint64) bool

// Changes plans the writes that turn the observed children into the desired ones. It skips objects
// that are being deleted or that the parent does not control. upToDate may be nil.
func (f *Planner) Changes(observed []*object.Object, desired []Child, upToDate UpToDate) (Plan, error) {
	have := make(map[Key]*object.Object, len(observed))
	for _, o := range observed {
		if f.Controls(o) {
			have[KeyOf(o)] = o
		}
	}
	var equal []Equal
	actions := make([]Action, 0, len(desired))
	for _, child := range desired {
		before, digest := have[KeyOf(child.Object)], child.Object.Digest()
		delete(have, KeyOf(child.Object))
		if before != nil && (before.Deleting() || child.Rule.Method == OnDelete || upToDate != nil && upToDate(before, digest)) {
			continue
		}
		action, err := f.change(before, child, digest)
		if err != nil {
			return Plan{}, fmt.Errorf("%s: %w", child.Object.Ref(), err)
		}
		if action.Verb == "" {
			equal = append(equal, Equal{Observed: before, Desired: digest})
			continue
		}
		actions = append(actions, action)
	}
	return Plan{Stages: stages(append(actions, f.removals(observed, have)...)), Equal: equal}, nil
}

// Key matches desired and observed children.
type Key struct {
	Kind            object.GroupKind
	Namespace, Name string
}

// KeyOf returns the key of an object.
func KeyOf(o *object.Object) Key { return Key{o.GroupKind(), o.Namespace(), o.Name()} }

// Controls reports whether the parent controls an object.
func (f *Planner) Controls(o *object.Object) bool { return o.ControlledBy(f.Parent.UID()) }

// change plans one desired child. The zero Action means that there is nothing to do.
func (f *Planner) change(before *object.Object, child Child, digest uint64) (Action, error) {
	action := Action{Resource: child.Rule.Resource, Ref: child.Object.Ref(), Before: before, Desired: digest}
	switch {
	case before == nil:
		return f.create(action, child)
	case child.Rule.Method == Recreate && (child.Rule.Strategy == ServerSide || appliedRecordOf(before).verb != ""):
		return f.recreateServerSide(action, child.Object)
	case child.Rule.Method == Recreate:
		return f.recreate(action, child.Object)
	case child.Rule.Strategy == ServerSide:
		return f.serverSide(action, child.Object)
	}
	return f.update(action, child.Object)
}

func (f *Planner) create(action Action, child Child) (Action, error) {
	w, err := f.desiredFieldsOf(child.Object)
	if err != nil {
		return Action{}, err
	}
	if child.Rule.Strategy == ServerSide {
		action.Manager = f.Manager
		setAnnotation(w.fields, AppliedAnnotation, f.appliedRecordFor(Create, w).String())
	} else {
		_, text, err := f.encodeLastApplied(w)
		if err != nil {
			return Action{}, err
		}
		f.setLastApplied(w.fields, text)
	}
	if w.status != nil {
		w.fields["status"] = w.status
	}
	addOwner(w.fields, f.Parent)
	action.After, err = object.Encode(w.fields)
	action.Verb, action.Reason = Create, "missing"
	return action, err
}

// update plans an update of a child. An empty value that the server drops counts as a difference:
// sending it again does no harm, and UpToDate ends it.
//
// A child to which the server applied other fields is applied once more before it is merged.
func (f *Planner) update(action Action, desired *object.Object) (Action, error) {
	if before, err := f.appliedBefore(action.Before, desired); err != nil || before {
		return f.finishServerSide(action, desired)
	}
	m, err := f.merged(action.Before, desired, merger{keys: object.ChildKeys, valuesOmitted: f.OmitValues})
	if err != nil {
		return Action{}, err
	}
	fieldPath := m.fieldPath
	if fieldPath == "" && m.recorded {
		return Action{}, nil
	}
	if fieldPath == "" {
		fieldPath = object.JoinPath("metadata.annotations", f.LastApplied)
	}
	f.setLastApplied(m.fields, m.text)
	action.After, err = object.Encode(m.fields)
	action.Verb, action.Want, action.FieldPath, action.Reason = Update, desired, fieldPath, fieldPath+" differs"
	return action, err
}

// recreate plans the deletion of a child that differs. It ignores differences that update writes:
// empty values, the last applied configuration, and another notation of the same value.
func (f *Planner) recreate(action Action, desired *object.Object) (Action, error) {
	m, err := f.merged(action.Before, desired, merger{keys: object.ChildKeys, ignoreEmpty: true, valuesOmitted: f.OmitValues})
	// The spec may still be as the server stored it when this desired object was created: in another notation of a quantity.
	asCreated := m.recorded && !f.OmitValues && action.Before.Generation() == 1 && strings.HasPrefix(m.fieldPath, "spec.")
	if err != nil || m.fieldPath == "" || asCreated {
		return Action{}, err
	}
	f.setLastApplied(m.fields, m.text)
	action.Verb, action.DryRunVerb, action.Want = Delete, Update, desired
	action.FieldPath, action.Reason = m.fieldPath, m.fieldPath+" differs"
	action.After, err = object.Encode(m.fields)
	return action, err
}

// merged is a desired child merged into the observed one.
type merged struct {
	fields map[string]any
	// text is the last applied configuration to store.
	text string
	// fieldPath is the first field that changes; "" if none does.
	fieldPath string
	// recorded means that the observed child has this last applied configuration.
	recorded bool
}

func (f *Planner) merged(observed, desired *object.Object, by merger) (merged, error) {
	have, err := object.Decode(observed.JSON())
	if err != nil {
		return merged{}, err
	}
	want, err := f.desiredFieldsOf(desired)
	if err != nil {
		return merged{}, err
	}
	lastAppliedFields, text, err := f.encodeLastApplied(want)
	if err != nil {
		return merged{}, err
	}
	last, key := f.lastApplied(have)
	m := merged{text: text, recorded: key == f.LastApplied && object.FirstDifference(last, lastAppliedFields) == ""}
	withoutNulls(last)
	if appliedRecordOf(observed).verb != "" {
		// The server applied these fields; see update.
		last, m.recorded = f.outline(want.fields), false
	}
	m.fields = by.objects(have, last, want.fields)
	if !m.recorded {
		RemoveNulls(m.fields, want.recorded)
	}
	keepSystemFields(m.fields, have)
	mergeOwners(m.fields, have, last, want.fields)
	m.fieldPath = semanticDifference(have, m.fields)
	return m, nil
}

// keepSystemFields restores the fields that a desired object cannot set.
func keepSystemFields(merged, observed map[string]any) {
	to, _ := merged["metadata"].(map[string]any)
	from, _ := observed["metadata"].(map[string]any)
	for _, name := range systemFields {
		restore(to, from, name)
	}
	restore(merged, observed, "status")
}

func restore(to, from map[string]any, name string) {
	if value, exists := from[name]; exists {
		to[name] = value
		return
	}
	delete(to, name)
}

// mergeOwners merges the owner references by UID. The reference to the parent is only in the
// observed ones, so it stays.
func mergeOwners(merged, observed, applied, desired map[string]any) {
	owners := merger{keys: object.OwnerKeys}.lists(ownersIn(observed), ownersIn(applied), ownersIn(desired))
	if metadata, isObject := merged["metadata"].(map[string]any); isObject && len(owners) > 0 {
		metadata["ownerReferences"] = owners
	}
}

func ownersIn(fields map[string]any) []any {
	owners, _ := object.FieldAt(fields, "metadata", "ownerReferences").([]any)
	return owners
}

// noLongerDesired is the reason of a removal.
const noLongerDesired = "no longer desired"

// removals plans the deletion of observed children that are not desired.
func (f *Planner) removals(observed []*object.Object, left map[Key]*object.Object) []Action {
	var actions []Action
	for _, o := range observed {
		if left[KeyOf(o)] != o || o.Deleting() {
			continue
		}
		rule, declared := f.Rules.For(o.GroupKind())
		if !declared {
			continue
		}
		actions = append(actions, Action{Verb: Delete, Resource: rule.Resource, Ref: o.Ref(), Before: o, Reason: noLongerDesired})
	}
	return actions
}
