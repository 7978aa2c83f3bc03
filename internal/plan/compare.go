package plan

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// difference returns the path of the first field in which two JSON values differ, by sorted names;
// "" if they are equal.
func difference(a, b any) string { return diffValues("", a, b, equalScalars) }

// semanticDifference prefers a field that differs in more than the notation of a quantity.
func semanticDifference(a, b any) string {
	return cmp.Or(diffValues("", a, b, equivalent), difference(a, b))
}

// equalFunc compares two scalars.
type equalFunc func(a, b any) bool

func diffValues(path string, a, b any, same equalFunc) string {
	switch left := a.(type) {
	case map[string]any:
		if right, ok := b.(map[string]any); ok {
			return diffObjects(path, left, right, same)
		}
	case []any:
		if right, ok := b.([]any); ok {
			return diffLists(path, left, right, same)
		}
	default:
		if same(a, b) {
			return ""
		}
	}
	return pathOrRoot(path)
}

func pathOrRoot(path string) string { return cmp.Or(path, ".") }

func diffObjects(path string, a, b map[string]any, same equalFunc) string {
	for _, name := range memberNames(a, b) {
		at := join(path, name)
		left, inA := a[name]
		right, inB := b[name]
		if inA != inB {
			return at
		}
		if found := diffValues(at, left, right, same); found != "" {
			return found
		}
	}
	return ""
}

// memberNames returns the sorted names of the members of both.
func memberNames(a, b map[string]any) []string {
	names := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func diffLists(path string, a, b []any, same equalFunc) string {
	if len(a) != len(b) {
		return pathOrRoot(path)
	}
	for i := range a {
		if found := diffValues(path+"["+strconv.Itoa(i)+"]", a[i], b[i], same); found != "" {
			return found
		}
	}
	return ""
}

// equalScalars treats 1 and 1.0 as equal: some hooks have only one type of number.
func equalScalars(a, b any) bool {
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	if a == b {
		return true
	}
	left, isNumber := number(a)
	right, isNumberToo := number(b)
	return isNumber && isNumberToo && left == right
}

func number(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func join(path, name string) string { return object.JoinPath(path, name) }
