package plan

import (
	"maps"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// missingField is the path of the first field of an object that is desired and is
// not observed so, or "" if none is. Other owners and finalizers than those
// desired are others' business.
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

// missingShared looks at what many share: the lists of owners and of finalizers.
func missingShared(observed, desired map[string]any) string {
	const owners, finalizers = "metadata.ownerReferences", "metadata.finalizers"
	merged := merger{keys: ownerKeys}.lists(ownersIn(observed), nil, ownersIn(desired))
	if len(ownersIn(desired)) > 0 && difference(ownersIn(observed), merged) != "" {
		return owners
	}
	have, _ := member(observed, "metadata", "finalizers").([]any)
	want, _ := member(desired, "metadata", "finalizers").([]any)
	for _, name := range want {
		if !slices.ContainsFunc(have, func(has any) bool { return difference(has, name) == "" }) {
			return finalizers
		}
	}
	return ""
}

// firstMissing goes down to the first field that is not as desired. Members that are
// not desired do not count, and neither do those of list items that are told
// apart. A list with another number of items counts as different, although an
// item of its own may be there by right: which lists are one wish as a whole, the
// server knows.
func firstMissing(path string, observed, desired any) string {
	switch want := desired.(type) {
	case map[string]any:
		have, isObject := observed.(map[string]any)
		if !isObject {
			return pathOrRoot(path)
		}
		return firstMissingMember(path, have, want)
	case []any:
		have, isList := observed.([]any)
		if !isList || len(have) != len(want) {
			return pathOrRoot(path)
		}
		if haveUniqueKeys(want) {
			return firstMissingItem(path, have, want)
		}
	}
	return diffValues(path, observed, desired, equalScalars)
}

func firstMissingMember(path string, observed, desired map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		at := join(path, name)
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

// sameItems says that the lists in what is desired have the items that are
// observed, though fields of these may differ. Any doubt is a no.
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
			return difference(have, want) == ""
		}
		for i, item := range want {
			if !sameItems(have[i], item) {
				return false
			}
		}
	}
	return true
}

// HasLeftovers says that a list has more items than were applied: one that is desired
// no more is still somebody's.
func HasLeftovers(applied, stored *object.Object) (bool, error) {
	want, err := tree(applied.JSON())
	if err != nil {
		return false, err
	}
	have, err := tree(stored.JSON())
	if err != nil {
		return false, err
	}
	// Owners and finalizers are others' too.
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
