package plan

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/lists"
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
	have, want, err := decodeBoth(under, over)
	if err != nil {
		return nil, err
	}
	return object.Encode(overlayFields(have, want, under.GroupKind().Group))
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
		found = redact.Changes(o.GroupKind(), found)
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
	dropApplied(annotations)
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
// set of fields and the items of lists have to be the same as before.
func (c comparison) update(resource object.Resource, record appliedRecord) (*object.Object, error) {
	if resource.Custom || !object.IsBuiltInGroup(resource.Group) {
		return nil, nil //nolint:nilnil // That there is none is no error.
	}
	fields := overlayFields(c.observed, c.desired.fields, resource.Group)
	if !onlyValuesChange(nil, c.observed, fields) {
		return nil, nil //nolint:nilnil // That there is none is no error.
	}
	setAnnotation(fields, AppliedAnnotation, record.String())
	return object.Encode(fields)
}

// onlyValuesChange reports whether two trees have the same fields, and differ in values only that an update may change.
func onlyValuesChange(path []string, before, after any) bool {
	switch now := after.(type) {
	case map[string]any:
		was, isObject := before.(map[string]any)
		for name, value := range now {
			if have, exists := was[name]; !exists || !onlyValuesChange(slices.Concat(path, []string{name}), have, value) {
				return false
			}
		}
		return isObject && len(was) == len(now)
	case []any:
		was, isList := before.([]any)
		if !isList || len(was) != len(now) {
			return false
		}
		for i := range now {
			if !onlyValuesChange(path, was[i], now[i]) {
				return false
			}
		}
		return true
	}
	return object.EqualScalars(before, after) || sameType(before, after) && mayChange(path)
}

func sameType(a, b any) bool {
	_, isNumber := object.Number(a)
	_, isNumberToo := object.Number(b)
	return isNumber && isNumberToo || reflect.TypeOf(a) == reflect.TypeOf(b)
}

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
