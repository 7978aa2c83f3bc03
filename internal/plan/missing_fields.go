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
	merged := merger{keys: object.OwnerKeys}.lists(ownersIn(observed), nil, ownersIn(desired))
	if len(ownersIn(desired)) > 0 && object.FirstDifference(ownersIn(observed), merged) != "" {
		return "metadata.ownerReferences"
	}
	if len(missingFinalizers(observed, desired)) > 0 {
		return "metadata.finalizers"
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
		if !haveUniqueKeys(want) {
			break
		}
		for i := range want {
			if fieldPath := firstMissing(path+"["+strconv.Itoa(i)+"]", have[i], want[i]); fieldPath != "" {
				return fieldPath
			}
		}
		return ""
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

// sameItems reports whether the desired lists have the observed items, whose fields may differ. It
// returns false in doubt.
func sameItems(observed, desired any) bool {
	return listsFit(observed, desired, func(have, want []any) bool {
		return have != nil && len(have) == len(want) && (haveUniqueKeys(want) || object.FirstDifference(have, want) == "")
	})
}

// listsFit reports whether all lists that are desired, at any depth, fit those observed; nil for none.
func listsFit(observed, desired any, fit func(have, want []any) bool) bool {
	switch want := desired.(type) {
	case map[string]any:
		have, _ := observed.(map[string]any)
		for name, value := range want {
			if !listsFit(have[name], value, fit) {
				return false
			}
		}
	case []any:
		have, _ := observed.([]any)
		if !fit(have, want) {
			return false
		}
		for i := range min(len(have), len(want)) {
			if !listsFit(have[i], want[i], fit) {
				return false
			}
		}
	}
	return true
}

// HasLeftovers reports whether a stored list has more items than were applied, because another
// manager owns an item that is no longer desired.
func HasLeftovers(applied, stored *object.Object) (bool, error) {
	want, have, err := decodeBoth(applied, stored)
	if err != nil {
		return false, err
	}
	// Other clients may own owners and finalizers.
	delete(want, "metadata")
	return !listsFit(have, want, func(have, want []any) bool { return len(have) <= len(want) }), nil
}
