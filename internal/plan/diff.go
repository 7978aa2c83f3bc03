package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Diff returns the fields that an action changes: all fields for Create and Delete, and those that
// differ for a Delete that recreates. It is empty if only Setpoint's annotations change. Only the
// server knows what an Apply removes: for that, apply the action as a dry run and call Compare.
func Diff(a Action) ([]object.FieldChange, error) {
	if a.Before == nil || a.Verb != Apply && a.DryRunVerb != Apply {
		return Compare(a.Before, a.After)
	}
	result, err := Overlay(a.Before, a.After)
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", a.Ref, err)
	}
	return Compare(a.Before, result)
}

// Overlay returns an object with the fields of another set on it. It is what an apply makes of it,
// except for what only the server knows.
func Overlay(under, over *object.Object) (*object.Object, error) {
	have, err := tree(under.JSON())
	if err != nil {
		return nil, err
	}
	want, err := tree(over.JSON())
	if err != nil {
		return nil, err
	}
	overlaid := merger{keys: childKeys}.objects(have, nil, want)
	mergeOwners(overlaid, have, nil, want)
	mergeFinalizers(overlaid, have)
	return objectOf(overlaid)
}

// mergeFinalizers keeps the finalizers of others.
func mergeFinalizers(merged, observed map[string]any) {
	wanted, _ := member(merged, "metadata", "finalizers").([]any)
	all, _ := member(observed, "metadata", "finalizers").([]any)
	if len(wanted) == 0 || len(all) == 0 {
		return
	}
	all = slices.Clone(all)
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(has any) bool { return difference(has, name) == "" }) {
			all = append(all, name)
		}
	}
	merged["metadata"].(map[string]any)["finalizers"] = all
}

// Compare returns the fields in which two objects differ; either may be nil. It leaves out system
// fields and Setpoint's annotations, and masks the values in a Secret.
func Compare(before, after *object.Object) ([]object.FieldChange, error) {
	left, err := comparableFields(before)
	if err != nil {
		return nil, err
	}
	right, err := comparableFields(after)
	if err != nil {
		return nil, err
	}
	var found fieldChanges
	for _, name := range memberNames(left, right) {
		found.compare(name, memberValue(left, name), memberValue(right, name))
	}
	for _, o := range []*object.Object{before, after} {
		if o != nil {
			return MaskSecret(o.GroupKind(), found), nil
		}
	}
	return found, nil
}

// MaskSecret masks the values in changes of an object, if its kind is that of Secrets.
func MaskSecret(kind object.GroupKind, changes []object.FieldChange) []object.FieldChange {
	if kind.IsSecret() {
		mask(changes)
	}
	return changes
}

// Same reports whether two objects are equal, except for system fields and Setpoint's annotations.
// The order of lists counts.
func Same(a, b *object.Object) (bool, error) {
	left, err := comparableFields(a)
	if err != nil {
		return false, err
	}
	right, err := comparableFields(b)
	return difference(left, right) == "", err
}

// comparableFields returns the fields of an object that Compare compares.
func comparableFields(o *object.Object) (map[string]any, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // A nil object has no fields.
	}
	fields, err := tree(o.JSON())
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", o.Ref(), err)
	}
	metadata, _ := fields["metadata"].(map[string]any)
	for _, name := range systemFields {
		delete(metadata, name)
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, key := range lastAppliedAnnotations {
		delete(annotations, key)
	}
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return fields, nil
}

// value is a value that may be absent.
type value struct {
	of    any
	given bool
}

func memberValue(members map[string]any, name string) value {
	of, given := members[name]
	return value{of, given}
}

// fieldChanges collects differences.
type fieldChanges []object.FieldChange

// compare adds the fields in which two values differ.
func (c *fieldChanges) compare(path string, before, after value) {
	members, areObjects := bothOf[map[string]any](before, after)
	lists, areLists := bothOf[[]any](before, after)
	switch {
	case areObjects:
		for _, name := range memberNames(members[0], members[1]) {
			c.compare(join(path, name), memberValue(members[0], name), memberValue(members[1], name))
		}
	case areLists:
		c.compareLists(path, lists[0], lists[1])
	case before.given && after.given && difference(before.of, after.of) == "":
	default:
		*c = append(*c, object.FieldChange{Path: path, From: before.text(), To: after.text()})
	}
}

// bothOf returns the two values if they have the same type and are not both empty. An absent value
// counts as an empty one.
func bothOf[T map[string]any | []any](before, after value) ([2]T, bool) {
	left, isLeft := before.of.(T)
	right, isRight := after.of.(T)
	fit := (isLeft || !before.given) && (isRight || !after.given)
	return [2]T{left, right}, fit && len(left)+len(right) > 0
}

func (v value) text() json.RawMessage {
	text, err := json.Marshal(v.of)
	if !v.given || err != nil {
		return nil
	}
	return text
}

// compareLists compares items with the same key, or with the same index.
func (c *fieldChanges) compareLists(path string, before, after []any) {
	for _, key := range displayKeys {
		left, fits := key.index(before)
		right, fitsToo := key.index(after)
		if fits && fitsToo {
			c.compareKeyed(path, key, left, right)
			return
		}
	}
	for i := range max(len(before), len(after)) {
		c.compare(path+"["+strconv.Itoa(i)+"]", itemValue(before, i), itemValue(after, i))
	}
}

func itemValue(list []any, i int) value {
	if i >= len(list) {
		return value{}
	}
	return value{list[i], true}
}

func (c *fieldChanges) compareKeyed(path string, key itemKey, before, after items) {
	order := slices.Clone(before.order)
	for _, id := range after.order {
		if _, known := before.byID[id]; !known {
			order = append(order, id)
		}
	}
	for _, id := range order {
		left, wasThere := before.byID[id]
		right, isThere := after.byID[id]
		c.compare(path+"["+key.describe(id)+"]", value{left, wasThere}, value{right, isThere})
	}
}

// describe returns a key such as "name=web", "port=53,protocol=UDP" or "Pod web-0".
func (k itemKey) describe(id identity) string {
	if k.manifests {
		return fmt.Sprint(id.value)
	}
	text := fmt.Sprintf("%s=%v", k.field, id.value)
	if k.protocols {
		text += ",protocol=" + id.protocol
	}
	return text
}

// mask masks the data of a Secret, and its annotations: kubectl stores a copy of the data there.
func mask(changes []object.FieldChange) {
	for i, c := range changes {
		if !object.IsSecretField(c.Path) {
			continue
		}
		before, after := `"***"`, `"***"`
		if c.From != nil && c.To != nil {
			before, after = `"*** (before)"`, `"*** (after)"`
		}
		if c.From != nil {
			changes[i].From = json.RawMessage(before)
		}
		if c.To != nil {
			changes[i].To = json.RawMessage(after)
		}
	}
}
