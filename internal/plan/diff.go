package plan

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
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
	have, err := object.Decode(under.JSON())
	if err != nil {
		return nil, err
	}
	want, err := object.Decode(over.JSON())
	if err != nil {
		return nil, err
	}
	return object.Encode(overlayFields(have, want, under.GroupKind().Group))
}

func overlayFields(have, want map[string]any, group string) map[string]any {
	overlaid := merger{keys: object.ApplyKeys(group), applyOrder: true}.objects(have, nil, want)
	mergeOwners(overlaid, have, nil, want)
	mergeFinalizers(overlaid, have)
	return overlaid
}

// mergeFinalizers keeps the finalizers of others.
func mergeFinalizers(merged, observed map[string]any) {
	wanted, _ := object.FieldAt(merged, "metadata", "finalizers").([]any)
	all, _ := object.FieldAt(observed, "metadata", "finalizers").([]any)
	if len(wanted) == 0 || len(all) == 0 {
		return
	}
	all = slices.Clone(all)
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(has any) bool { return object.FirstDifference(has, name) == "" }) {
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
	found := object.KeyedChanges(left, right)
	if o := cmp.Or(before, after); o != nil {
		return redact.Changes(o.GroupKind(), found), nil
	}
	return found, nil
}

// Same reports whether two objects are equal, except for system fields and Setpoint's annotations.
// The order of lists counts.
func Same(a, b *object.Object) (bool, error) {
	left, err := comparableFields(a)
	if err != nil {
		return false, err
	}
	right, err := comparableFields(b)
	return object.FirstDifference(left, right) == "", err
}

// comparableFields returns the fields of an object that Compare compares.
func comparableFields(o *object.Object) (map[string]any, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // A nil object has no fields.
	}
	fields, err := object.Decode(o.JSON())
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", o.Ref(), err)
	}
	metadata, _ := fields["metadata"].(map[string]any)
	RemoveSystemFields(metadata)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, key := range lastAppliedAnnotations {
		delete(annotations, key)
	}
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return fields, nil
}

// An update costs the API server two thirds of a server-side apply for a small object, and a third for
// a large one. It has the same result if only values change of fields that the manager has set before:
// nothing is added or removed, for which one needs the managed fields, and nothing is merged, for which
// one needs the schema. Only a built-in kind has an update: the object it sends may have defaults that a CRD
// has no longer, and what the server of an aggregated API does with it is not known. See designs/0020-cheapest-write.md.

// update returns the whole object for an update that has the result of the apply; nil if there is none. The
// set of fields has to be the same as before.
func (c comparison) update(resource object.Resource, record appliedRecord) (*object.Object, error) {
	if resource.Custom || !object.IsBuiltInGroup(resource.Group) || missingShared(c.observed, c.desired.fields) != "" ||
		!valuesFit(nil, c.observed, c.desired.fields) {
		return nil, nil //nolint:nilnil // That there is none is no error.
	}
	fields := overlayFields(c.observed, c.desired.fields, resource.Group)
	setAnnotation(fields, AppliedAnnotation, record.String())
	return object.Encode(fields)
}

// valuesFit reports whether all desired fields are observed, and an update may change the values that differ.
func valuesFit(path []string, observed, desired any) bool {
	switch want := desired.(type) {
	case map[string]any:
		have, isObject := observed.(map[string]any)
		return isObject && membersFit(path, have, want)
	case []any:
		have, isList := observed.([]any)
		return isList && len(have) == len(want) && itemsFit(path, have, want)
	}
	return object.EqualScalars(observed, desired) || sameType(observed, desired) && mayChange(path)
}

func membersFit(path []string, have, want map[string]any) bool {
	for name, value := range want {
		below := slices.Concat(path, []string{name})
		if len(below) == 2 && below[0] == "metadata" && (below[1] == "ownerReferences" || below[1] == "finalizers") {
			continue
		}
		if observed, exists := have[name]; !exists || !valuesFit(below, observed, value) {
			return false
		}
	}
	return true
}

// itemsFit reports whether all items fit. An item that changes has to be the same one by its key.
func itemsFit(path []string, have, want []any) bool {
	keyed, same := haveUniqueKeys(want), PairItems(have, want, object.ApplyKeys(""))
	for i := range want {
		if same[i] == nil && want[i] != nil {
			return false
		}
		if firstMissing("", have[i], want[i]) == "" {
			continue
		}
		if !keyed || !sameKeys(have[i], want[i]) || !valuesFit(path, have[i], want[i]) {
			return false
		}
	}
	return true
}

// sameKeys reports whether every field that may be the key of an item has its desired value.
func sameKeys(observed, desired any) bool {
	have, isObject := observed.(map[string]any)
	want, isObjectToo := desired.(map[string]any)
	for name, value := range want {
		if isKeyField(name) && isScalar(value) && !object.EqualScalars(have[name], value) {
			return false
		}
	}
	return isObject && isObjectToo
}

// sameType reports whether two scalars have the same type.
func sameType(a, b any) bool {
	_, isNumber := object.Number(a)
	_, isNumberToo := object.Number(b)
	return isNumber && isNumberToo || reflect.TypeOf(a) == reflect.TypeOf(b)
}

// mayChange reports whether an update may change the value of a field.
func mayChange(path []string) bool {
	return isLabelOrAnnotation(path) || slices.ContainsFunc(independentFields, func(f []string) bool { return endsWith(path, f) })
}

// independentFields are the ends of the paths of fields from which the API server derives no other field.
// They are those that change most often.
var independentFields = [][]string{
	{"data", "*"}, {"binaryData", "*"},
	{"spec", "replicas"}, {"spec", "paused"}, {"spec", "suspend"}, {"spec", "schedule"}, {"spec", "minReadySeconds"},
	{"containers", "image"}, {"initContainers", "image"}, {"env", "value"},
	{"resources", "limits", "*"}, {"resources", "requests", "*"},
}

// isLabelOrAnnotation also holds for those of a pod template. Kubernetes' own annotations may stand for
// fields of another version of the kind.
func isLabelOrAnnotation(path []string) bool {
	if endsWith(path, []string{"metadata", "labels", "*"}) {
		return true
	}
	domain, _, _ := strings.Cut(path[len(path)-1], "/")
	return endsWith(path, []string{"metadata", "annotations", "*"}) && !strings.HasSuffix("."+domain, ".kubernetes.io") &&
		!strings.HasSuffix("."+domain, ".k8s.io")
}

// endsWith reports whether a path ends with names; "*" is any name.
func endsWith(path, end []string) bool {
	if len(path) < len(end) {
		return false
	}
	for i, name := range path[len(path)-len(end):] {
		if end[i] != "*" && end[i] != name {
			return false
		}
	}
	return true
}
