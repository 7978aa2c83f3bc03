package plan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// merger is a three-way merge of the observed, the last applied and the desired object. It follows
// the rules of Metacontroller's apply:
//
//   - A desired field is set. A field that was applied and is no longer desired is removed. Other
//     fields stay.
//   - Objects are merged by member.
//   - Lists of objects with a key are merged by item, in the observed order, with new items at the
//     end.
//   - Other lists are replaced.
//
// It deviates where these rules would never converge: items with the same key are identified by more fields, and a list
// without keys is merged by index while its desired value is unchanged, so that what the server sets is no difference.
//
// The inputs are JSON values without nulls in objects. They are not changed, and the result may share parts of them.
type merger struct {
	// keys are the possible keys of list items, the best first.
	keys []object.ItemKey
	// ignoreEmpty ignores an empty value (false, 0, "", [], {}) that was applied and is absent: the server dropped it.
	ignoreEmpty bool
	// valuesOmitted means that only the field set of what was applied is known.
	valuesOmitted bool
	// applyOrder puts items into the order of a server-side apply.
	applyOrder bool
}

func (m merger) merge(observed, applied, desired any) any {
	switch want := desired.(type) {
	case map[string]any:
		have, ok := observed.(map[string]any)
		if !ok {
			return want
		}
		last, _ := applied.(map[string]any)
		return m.objects(have, last, want)
	case []any:
		have, ok := observed.([]any)
		if !ok {
			return want
		}
		last, _ := applied.([]any)
		return m.lists(have, last, want)
	}
	return desired
}

func (m merger) objects(observed, applied, desired map[string]any) map[string]any {
	merged := make(map[string]any, len(observed)+len(desired))
	maps.Copy(merged, observed)
	for name := range applied {
		delete(merged, name)
	}
	for name, value := range desired {
		have, exists := observed[name]
		last, wasApplied := applied[name]
		switch {
		case exists:
			merged[name] = m.merge(have, last, value)
		case m.ignoreEmpty && wasApplied && isEmptyValue(value) && isEmptyValue(last):
		default:
			merged[name] = value
		}
	}
	return merged
}

// isEmptyValue reports whether a server may omit a value when it stores an object.
func isEmptyValue(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	case bool:
		return !v
	}
	n, isNumber := object.Number(value)
	return isNumber && n == 0
}

func (m merger) lists(observed, applied, desired []any) []any {
	hasKeys := false
	for _, key := range m.keys {
		want, fits := key.Index(desired)
		if !fits {
			continue
		}
		hasKeys = true
		have, fits := key.Index(observed)
		last, fitsToo := key.Index(applied)
		if fits && fitsToo {
			return m.byKey(have, last, want)
		}
	}
	if hasKeys || len(observed) != len(desired) || !m.unchanged(applied, desired) {
		return desired
	}
	merged := make([]any, len(desired))
	for i := range desired {
		merged[i] = m.merge(observed[i], applied[i], desired[i])
	}
	return merged
}

// unchanged reports whether the desired list is the same as before. With field sets only, values
// may have changed, which a merge by index sets as well.
func (m merger) unchanged(applied, desired []any) bool {
	if m.valuesOmitted {
		desired = listFieldSet(desired)
	}
	return object.FirstDifference(applied, desired) == ""
}

// byKey merges lists whose items have a key.
func (m merger) byKey(observed, applied, desired object.Items) []any {
	isNew := func(id object.Identity) bool { _, has := observed.ByID[id]; return !has }
	order := slices.Concat(observed.Order, lists.Filter(desired.Order, isNew))
	if m.applyOrder {
		order = inApplyOrder(observed, desired)
	}
	merged := make([]any, 0, len(order))
	for _, id := range order {
		item, isObserved := observed.ByID[id]
		want, isDesired := desired.ByID[id]
		last, wasApplied := applied.ByID[id]
		switch {
		case isObserved && isDesired:
			merged = append(merged, m.merge(item, last, want))
		case isDesired:
			merged = append(merged, want)
		case !wasApplied:
			merged = append(merged, item)
		}
	}
	return merged
}

// inApplyOrder returns the items of two lists in the order of a server-side apply: the desired ones keep
// theirs, and each of the others stands behind the observed items before it, as far as that allows.
func inApplyOrder(observed, desired object.Items) (order []object.Identity) {
	rest := observed.Order
	isDesired := func(id object.Identity) bool { _, is := desired.ByID[id]; return is }
	isObserved := func(id object.Identity) bool { _, is := observed.ByID[id]; return is }
	for i, next := range desired.Order {
		shared := slices.IndexFunc(desired.Order[i:], isObserved)
		for len(rest) > 0 && rest[0] != next {
			id, wanted := rest[0], isDesired(rest[0])
			if wanted && shared > 0 && id == desired.Order[i+shared] {
				break
			}
			if !wanted {
				order = append(order, id)
			}
			if rest = rest[1:]; wanted && shared < 0 {
				break
			}
		}
		if len(rest) > 0 && rest[0] == next {
			rest = rest[1:]
		}
		order = append(order, next)
	}
	return slices.Concat(order, slices.DeleteFunc(slices.Clone(rest), isDesired))
}

// PairItems returns for each item of a list the desired item that is the same one by one of the keys, or nil.
// Lists whose items have no key in common are paired by index.
func PairItems(have, want []any, keys []object.ItemKey) []any {
	pairs := make([]any, len(have))
	for _, key := range keys {
		observed, fits := key.Index(have)
		desired, fitsToo := key.Index(want)
		if !fits || !fitsToo {
			continue
		}
		for i, id := range observed.Order {
			pairs[i] = desired.ByID[id]
		}
		return pairs
	}
	copy(pairs, want)
	return pairs
}

func decodeBoth(a, b *object.Object) (left, right map[string]any, err error) {
	if left, err = object.Decode(a.JSON()); err == nil {
		right, err = object.Decode(b.JSON())
	}
	return left, right, err
}

func overlayFields(have, want map[string]any, group string) map[string]any {
	overlaid := merger{keys: object.ApplyKeys(group), applyOrder: true}.objects(have, nil, want)
	mergeOwners(overlaid, have, nil, want)
	mergeFinalizers(overlaid, have)
	return overlaid
}

// mergeFinalizers keeps the finalizers of others.
func mergeFinalizers(merged, observed map[string]any) {
	if all := finalizersIn(observed); len(all) > 0 && len(finalizersIn(merged)) > 0 {
		merged["metadata"].(map[string]any)["finalizers"] = slices.Concat(all, missingFinalizers(observed, merged))
	}
}

func finalizersIn(fields map[string]any) []any {
	names, _ := object.FieldAt(fields, "metadata", "finalizers").([]any)
	return names
}

func missingFinalizers(observed, desired map[string]any) []any {
	return lists.Filter(finalizersIn(desired), func(name any) bool {
		return !slices.ContainsFunc(finalizersIn(observed), func(has any) bool { return object.FirstDifference(has, name) == "" })
	})
}

// mergeOwners merges the owner references by UID. That to the parent is only in the observed ones, so it stays.
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

// OwnerReferenceTo returns a reference to the controlling owner.
func OwnerReferenceTo(parent *object.Object) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: parent.APIVersion(), Kind: parent.Kind(), Name: parent.Name(), UID: types.UID(parent.UID()),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// addOwner adds the parent as the controlling owner of a new object.
func addOwner(fields map[string]any, parent *object.Object) {
	metadata := fields["metadata"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	metadata["ownerReferences"] = append(owners, OwnerReferenceTo(parent))
}

// A null in a response removes the field from the child, also one that no manager applied: a default, or a
// field of others. It does so once, when it is new in the response. Later the field is as one that the
// response does not have: a default would differ for ever, and others may need the field.

// withoutNulls removes null members from objects at any depth. List items stay, because their positions matter.
func withoutNulls(tree any) {
	switch t := tree.(type) {
	case map[string]any:
		for name, value := range t {
			if value == nil {
				delete(t, name)
				continue
			}
			withoutNulls(value)
		}
	case []any:
		for _, item := range t {
			withoutNulls(item)
		}
	}
}

// RemoveNulls removes what is null in the desired fields from an object, and reports whether there was anything.
func RemoveNulls(have, desired any) (removed bool) {
	switch want := desired.(type) {
	case map[string]any:
		members, _ := have.(map[string]any)
		for name, value := range want {
			if _, exists := members[name]; exists && value == nil {
				delete(members, name)
				removed = true
			}
			removed = RemoveNulls(members[name], value) || removed
		}
	case []any:
		items, _ := have.([]any)
		for i, item := range PairItems(want, items, object.ChildKeys) {
			removed = RemoveNulls(item, want[i]) || removed
		}
	}
	return removed
}

// WithoutNulls returns an object without the members that are null.
func WithoutNulls(o *object.Object) (*object.Object, error) {
	fields, err := object.Decode(o.JSON())
	if err != nil {
		return nil, err
	}
	withoutNulls(fields)
	return object.Encode(fields)
}

// systemFields are the fields of metadata that the API server sets, and a desired object cannot.
var systemFields = []string{"selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"}

// AppliedAnnotation is the annotation by which server-side apply notices that a field is no longer desired.
const AppliedAnnotation = "setpoint.dev/applied"

// The annotations with the last applied configuration: in Setpoint's own group with names of fields only.
const (
	AppliedFieldsAnnotation         = "setpoint.dev/applied-fields"
	MetacontrollerAppliedAnnotation = "metacontroller.k8s.io/last-applied-configuration"
)

// lastAppliedKeys returns the annotations of this controller, first, and of those that the child may have belonged to.
func (f *Planner) lastAppliedKeys() []string {
	return lists.Union([]string{f.LastApplied}, []string{MetacontrollerAppliedAnnotation, AppliedFieldsAnnotation})
}

// dropApplied removes the annotations in which controllers store what they applied, and those with more keys.
func dropApplied(annotations map[string]any, more ...string) {
	for _, key := range append(more, AppliedAnnotation, MetacontrollerAppliedAnnotation, AppliedFieldsAnnotation) {
		delete(annotations, key)
	}
}

// desiredFields are the fields to set on a child.
type desiredFields struct {
	// fields has no nulls.
	fields map[string]any
	// recorded are the fields with their nulls. A null removes a field of the child when it is new.
	recorded map[string]any
	// status is for new objects only.
	status any
}

// desiredFieldsOf returns the fields of a desired child. It drops fields that hooks cannot set,
// because a hook may return an object as it got it. Otherwise the last applied configuration would
// contain itself and grow with each write.
func (f *Planner) desiredFieldsOf(desired *object.Object) (desiredFields, error) {
	fields, err := object.Decode(desired.JSON())
	if err != nil {
		return desiredFields{}, err
	}
	w := desiredFields{fields: fields, recorded: fields, status: fields["status"]}
	if bytes.Contains(desired.JSON(), []byte("null")) {
		w.recorded = runtime.DeepCopyJSON(fields)
		f.strip(w.recorded)
		metadata, _ := w.recorded["metadata"].(map[string]any)
		maps.DeleteFunc(metadata, func(_ string, value any) bool { return value == nil })
	}
	withoutNulls(fields)
	f.strip(fields)
	return w, nil
}

// unfoldStringData moves stringData of a Secret to data, as the server does. The server never returns stringData, so it
// could be neither compared nor removed. Invalid values stay, and the server rejects them.
func unfoldStringData(fields map[string]any) {
	texts, isObject := fields["stringData"].(map[string]any)
	if !isObject || fields["kind"] != "Secret" || fields["apiVersion"] != "v1" {
		return
	}
	unfolded := map[string]any{}
	if data, isObject := fields["data"].(map[string]any); isObject {
		maps.Copy(unfolded, data)
	} else if fields["data"] != nil {
		return
	}
	for key, value := range texts {
		text, isText := value.(string)
		if !isText {
			return
		}
		unfolded[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(fields, "stringData")
	if len(unfolded) > 0 {
		fields["data"] = unfolded
	}
}

// outline returns what is stored of applied fields.
func (f *Planner) outline(fields map[string]any) map[string]any {
	if f.OmitValues {
		return objectFieldSet(fields, false)
	}
	return fields
}

// strip removes the fields that a hook cannot set, and unfolds those of a Secret.
func (f *Planner) strip(fields map[string]any) {
	delete(fields, "status")
	metadata, _ := fields["metadata"].(map[string]any)
	RemoveSystemFields(metadata)
	annotations, _ := metadata["annotations"].(map[string]any)
	before := len(annotations)
	dropApplied(annotations, f.LastApplied)
	if before > 0 && len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	if owners, isList := metadata["ownerReferences"].([]any); isList {
		owners = OtherOwners(owners, f.Parent.UID())
		if metadata["ownerReferences"] = owners; len(owners) == 0 {
			delete(metadata, "ownerReferences")
		}
	}
	unfoldStringData(fields)
}

// RemoveSystemFields removes from metadata what the API server sets.
func RemoveSystemFields(metadata map[string]any) {
	for _, name := range systemFields {
		delete(metadata, name)
	}
}

// OtherOwners returns the owners except for the parent, each once.
func OtherOwners(owners []any, parent string) []any {
	seen := map[any]bool{parent: true}
	var kept []any
	for _, owner := range owners {
		members, _ := owner.(map[string]any)
		uid, named := members["uid"].(string)
		if !named || !seen[uid] {
			kept = append(kept, owner)
		}
		seen[uid] = named || seen[uid]
	}
	return kept
}

// lastApplied returns the last applied configuration of an object, with nulls, and its annotation; nothing if corrupt.
func (f *Planner) lastApplied(observed map[string]any) (last map[string]any, key string) {
	annotations, _ := object.FieldAt(observed, "metadata", "annotations").(map[string]any)
	for _, key := range f.lastAppliedKeys() {
		text, _ := annotations[key].(string)
		if last, err := object.Decode([]byte(text)); err == nil {
			f.strip(last)
			return last, key
		}
	}
	return nil, ""
}

func (f *Planner) setLastApplied(fields, applied map[string]any) error {
	text, err := json.Marshal(f.outline(applied))
	metadata := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	record := maps.Clone(annotations)
	dropApplied(record, f.LastApplied)
	metadata["annotations"] = record
	setAnnotation(fields, f.LastApplied, string(text))
	return err
}

// setAnnotation sets an annotation in place.
func setAnnotation(fields map[string]any, key, value string) {
	metadata := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[key] = value
}

// equivalent reports whether two values mean the same: as quantities, "1" is "1000m".
func equivalent(a, b any) bool {
	if object.EqualScalars(a, b) {
		return true
	}
	left, isText := a.(string)
	right, isTextToo := b.(string)
	if !isText || !isTextToo {
		return false
	}
	one, err := resource.ParseQuantity(left)
	if err != nil {
		return false
	}
	other, err := resource.ParseQuantity(right)
	return err == nil && one.Cmp(other) == 0
}
