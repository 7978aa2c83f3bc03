package plan

import (
	"maps"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// missingField returns the first desired field that is not observed; "" if there is none.
// Additional owners and finalizers do not count.
func missingField(observed, desired map[string]any) string {
	want := maps.Clone(desired)
	if metadata, given := want["metadata"].(map[string]any); given {
		metadata = maps.Clone(metadata)
		delete(metadata, "ownerReferences")
		delete(metadata, "finalizers")
		want["metadata"] = metadata
	}
	if fieldPath := firstMissing("", observed, want); fieldPath != "" {
		return fieldPath
	}
	return missingShared(observed, desired)
}

// missingShared compares the lists that several clients share: owners and finalizers.
func missingShared(observed, desired map[string]any) string {
	const owners, finalizers = "metadata.ownerReferences", "metadata.finalizers"
	merged := merger{keys: object.OwnerKeys}.lists(ownersIn(observed), nil, ownersIn(desired))
	if len(ownersIn(desired)) > 0 && object.FirstDifference(ownersIn(observed), merged) != "" {
		return owners
	}
	have, _ := object.FieldAt(observed, "metadata", "finalizers").([]any)
	want, _ := object.FieldAt(desired, "metadata", "finalizers").([]any)
	for _, name := range want {
		if !slices.ContainsFunc(have, func(has any) bool { return object.FirstDifference(has, name) == "" }) {
			return finalizers
		}
	}
	return ""
}

// firstMissing returns the first field that is not as desired. Additional members of objects do not
// count. A list with another number of items differs, although the additional items may belong to
// others: only the server knows which lists are atomic.
func firstMissing(path string, observed, desired any) string {
	switch want := desired.(type) {
	case map[string]any:
		have, isObject := observed.(map[string]any)
		if !isObject {
			return object.PathOrRoot(path)
		}
		return firstMissingMember(path, have, want)
	case []any:
		have, isList := observed.([]any)
		if !isList || len(have) != len(want) {
			return object.PathOrRoot(path)
		}
		if haveUniqueKeys(want) {
			return firstMissingItem(path, have, want)
		}
	}
	return object.DifferenceBy(path, observed, desired, object.EqualScalars)
}

func firstMissingMember(path string, observed, desired map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		at := object.JoinPath(path, name)
		have, exists := observed[name]
		if !exists {
			return at
		}
		if fieldPath := firstMissing(at, have, desired[name]); fieldPath != "" {
			return fieldPath
		}
	}
	return ""
}

func firstMissingItem(path string, observed, desired []any) string {
	for i := range desired {
		if fieldPath := firstMissing(path+"["+strconv.Itoa(i)+"]", observed[i], desired[i]); fieldPath != "" {
			return fieldPath
		}
	}
	return ""
}

// sameItems reports whether the desired lists have the observed items, whose fields may differ. It
// returns false in doubt.
func sameItems(observed, desired any) bool {
	switch want := desired.(type) {
	case map[string]any:
		have, _ := observed.(map[string]any)
		for name, value := range want {
			if !sameItems(have[name], value) {
				return false
			}
		}
	case []any:
		have, isList := observed.([]any)
		if !isList || len(have) != len(want) {
			return false
		}
		if !haveUniqueKeys(want) {
			return object.FirstDifference(have, want) == ""
		}
		for i, item := range want {
			if !sameItems(have[i], item) {
				return false
			}
		}
	}
	return true
}

// HasLeftovers reports whether a stored list has more items than were applied, because another
// manager owns an item that is no longer desired.
func HasLeftovers(applied, stored *object.Object) (bool, error) {
	want, err := object.Decode(applied.JSON())
	if err != nil {
		return false, err
	}
	have, err := object.Decode(stored.JSON())
	if err != nil {
		return false, err
	}
	// Other clients may own owners and finalizers.
	delete(want, "metadata")
	return hasLeftovers(have, want), nil
}

func hasLeftovers(stored, applied any) bool {
	switch want := applied.(type) {
	case map[string]any:
		have, _ := stored.(map[string]any)
		for name, value := range want {
			if hasLeftovers(have[name], value) {
				return true
			}
		}
	case []any:
		have, _ := stored.([]any)
		if len(have) > len(want) {
			return true
		}
		for i, item := range have {
			if hasLeftovers(item, want[i]) {
				return true
			}
		}
	}
	return false
}
