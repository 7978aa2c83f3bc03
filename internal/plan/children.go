package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Claim is the result of claiming: the children of a parent, and the writes that adopt orphans and release others.
type Claim struct {
	Children []*object.Object
	Changes  []Action
}

// Claim claims objects of one kind: those that the parent owns, and matching orphans. A deleted parent adopts nothing.
func (f *Planner) Claim(resource object.Resource, owned, orphans []*object.Object) (Claim, error) {
	c := Claim{Children: make([]*object.Object, 0, len(owned))}
	change := func(verb Verb, o *object.Object, reason string, owners ...json.RawMessage) error {
		after, err := replaceOwner(o, f.Parent.UID(), owners...)
		c.Changes = append(c.Changes, Action{Verb: verb, Resource: resource, Ref: o.Ref(), Before: o, After: after, Reason: reason})
		return err
	}
	for _, o := range owned {
		if !f.manages(o) {
			continue
		}
		if f.isDecorator() || f.Selector.Matches(o.Labels()) || o.Deleting() || f.Parent.Deleting() {
			c.Children = append(c.Children, o)
			continue
		}
		if err := change(Release, o, "labels no longer match the parent's selector"); err != nil {
			return c, err
		}
	}
	if f.Parent.Deleting() || f.isDecorator() || len(orphans) == 0 {
		return c, nil
	}
	own, err := json.Marshal(OwnerReferenceTo(f.Parent))
	if err != nil {
		return c, err
	}
	for _, o := range orphans {
		if o.Deleting() {
			continue
		}
		if err := change(Adopt, o, "labels match the parent's selector", own); err != nil {
			return c, err
		}
	}
	return c, nil
}

// manages reports whether an owned object belongs to this controller, not to another controller of the same parent.
func (f *Planner) manages(o *object.Object) bool {
	if f.isDecorator() {
		return f.Mark.On(o)
	}
	// A revision that Setpoint stores is no child, even if the controller has children of the kind.
	isRevision := o.GroupKind() == ControllerRevisions.GroupKind() && o.Labels().Has(ParentUIDLabel)
	return !isRevision && Annotation(o, DecoratorMark) == "" && Annotation(o, MetacontrollerDecoratorMark) == ""
}

// replaceOwner returns an object with other owner references in the place of those to one UID.
func replaceOwner(o *object.Object, uid string, by ...json.RawMessage) (*object.Object, error) {
	var owners []json.RawMessage
	if field := o.Field("metadata", "ownerReferences"); field != nil {
		if err := json.Unmarshal(field, &owners); err != nil {
			return nil, err
		}
	}
	owners = append(slices.DeleteFunc(owners, func(owner json.RawMessage) bool {
		var id struct{ UID string }
		return json.Unmarshal(owner, &id) == nil && id.UID == uid
	}), by...)
	if len(owners) == 0 {
		return o.With(nil, "metadata", "ownerReferences")
	}
	return o.WithValue(owners, "metadata", "ownerReferences")
}

// ControllerRevisions is the kind that stores revisions. Every cluster has it, and its data is immutable.
var ControllerRevisions = object.Resource{
	Group: "apps", Version: "v1", Plural: "controllerrevisions", Kind: "ControllerRevision", Namespaced: true,
}

// revisionHash is how many hex digits of a hash the name of a revision has.
const revisionHash = 32

// RevisionName returns a name such as "shops.example.org-5f2b…", with a hash of parts after a prefix, which may be cut.
func RevisionName(prefix string, parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		// The length keeps ("ab", "c") and ("a", "bc") apart.
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	prefix = prefix[:min(len(prefix), validation.DNS1123SubdomainMaxLength-revisionHash-1)]
	return strings.TrimRight(prefix, ".-") + "-" + hex.EncodeToString(h.Sum(nil))[:revisionHash]
}

// ParentUIDLabel is on every revision. Watches select it.
const ParentUIDLabel = "setpoint.dev/parent-uid"

// UpToDate reports whether an observed child is known to match the digest of a desired one. It is not compared then.
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

// Controls reports whether the parent controls an object.
func (f *Planner) Controls(o *object.Object) bool { return o.ControlledBy(f.Parent.UID()) }

// change plans one desired child. The zero Action means that there is nothing to do.
func (f *Planner) change(before *object.Object, child Child, digest uint64) (Action, error) {
	action := Action{Resource: child.Rule.Resource, Ref: child.Object.Ref(), Before: before, Desired: digest}
	if before == nil {
		return f.create(action, child)
	}
	serverSide, recreate := child.Rule.Strategy == ServerSide, child.Rule.Method == Recreate
	applied := serverSide || appliedRecordOf(before).verb != ""
	switch {
	case recreate && applied:
		return f.recreateServerSide(action, child.Object)
	case serverSide:
		return f.serverSide(action, child.Object)
	case applied:
		return f.applyOnceMore(action, child.Object)
	case recreate:
		return f.recreateMerged(action, child.Object)
	}
	return f.updateMerged(action, child.Object)
}

func (f *Planner) create(action Action, child Child) (Action, error) {
	w, err := f.desiredFieldsOf(child.Object)
	if err != nil {
		return Action{}, err
	}
	if child.Rule.Strategy == ServerSide {
		action.Manager = f.Manager
		setAnnotation(w.fields, AppliedAnnotation, f.appliedRecordFor(Create, w).String())
	} else if err := f.setLastApplied(w.fields, w.recorded); err != nil {
		return Action{}, err
	}
	if w.status != nil {
		w.fields["status"] = w.status
	}
	addOwner(w.fields, f.Parent)
	action.After, err = object.Encode(w.fields)
	action.Verb, action.Reason = Create, "missing"
	return action, err
}

// updateMerged plans an update of a child that differs. An empty value that the server drops counts as a difference: sending
// it again does no harm, and UpToDate ends it. So does the last applied configuration.
func (f *Planner) updateMerged(action Action, desired *object.Object) (Action, error) {
	m, err := f.merged(action.Before, desired, merger{keys: object.ChildKeys, valuesOmitted: f.OmitValues})
	if err != nil || m.fieldPath == "" && m.recorded {
		return Action{}, err
	}
	action.Verb = Update
	return f.writing(action, m, desired)
}

// recreateMerged plans the deletion of a child to create it again, if it differs by more than what updateMerged sends
// again, or than another notation of the same value.
func (f *Planner) recreateMerged(action Action, desired *object.Object) (Action, error) {
	m, err := f.merged(action.Before, desired, merger{keys: object.ChildKeys, ignoreEmpty: true, valuesOmitted: f.OmitValues})
	// The spec may still be as the server stored it when this desired object was created: in another notation of a quantity.
	asCreated := m.recorded && !f.OmitValues && action.Before.Generation() == 1 && strings.HasPrefix(m.fieldPath, "spec.")
	if err != nil || m.fieldPath == "" || asCreated {
		return Action{}, err
	}
	action.Verb, action.DryRunVerb = Delete, Update
	return f.writing(action, m, desired)
}

// writing completes an action with what was merged.
func (f *Planner) writing(action Action, m merged, desired *object.Object) (Action, error) {
	err := f.setLastApplied(m.fields, m.desired.recorded)
	if err != nil {
		return Action{}, err
	}
	action.After, err = object.Encode(m.fields)
	action.Want = desired
	action.FieldPath = cmp.Or(m.fieldPath, object.JoinPath("metadata.annotations", f.LastApplied))
	action.Reason = action.FieldPath + " differs"
	return action, err
}

// applyOnceMore plans for a child to which the server applied fields, and which is merged from now on. If these are
// others than the desired ones, it is applied before it is merged, because only the server knows which fields to
// remove. Without a digest it does not count as up to date, so the merge follows.
func (f *Planner) applyOnceMore(action Action, desired *object.Object) (Action, error) {
	c, err := f.comparison(action.Before, desired)
	switch {
	case err != nil:
		return Action{}, err
	case c.record.fieldSet == c.newRecord.fieldSet:
		return f.updateMerged(action, desired)
	}
	action.Desired = 0
	return f.serverSide(action, desired)
}

// merged is a desired child merged into the observed one.
type merged struct {
	desired desiredFields
	fields  map[string]any
	// fieldPath is the first field that changes; "" if none does.
	fieldPath string
	// recorded means that the observed child has this last applied configuration.
	recorded bool
}

func (f *Planner) merged(observed, desired *object.Object, by merger) (m merged, err error) {
	if m.desired, err = f.desiredFieldsOf(desired); err != nil {
		return m, err
	}
	have, err := object.Decode(observed.JSON())
	if err != nil {
		return m, err
	}
	want := m.desired
	last, key := f.lastApplied(have)
	m.recorded = key == f.LastApplied && object.FirstDifference(last, f.outline(want.recorded)) == ""
	withoutNulls(last)
	if appliedRecordOf(observed).verb != "" {
		// The server applied these fields; see applyOnceMore.
		last, m.recorded = f.outline(want.fields), false
	}
	m.fields = by.objects(have, last, want.fields)
	if !m.recorded {
		RemoveNulls(m.fields, want.recorded)
	}
	keepSystemFields(m.fields, have)
	mergeOwners(m.fields, have, last, want.fields)
	m.fieldPath = cmp.Or(object.DifferenceBy("", have, m.fields, equivalent), object.FirstDifference(have, m.fields))
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

// noLongerDesired is the reason of a removal.
const noLongerDesired = "no longer desired"

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
