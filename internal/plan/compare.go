package plan

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// difference is the path of the first field in which two JSON trees differ,
// members taken by name, or "" when they are equal.
func difference(a, b any) string { return differ("", a, b, equalScalars) }

// meaning is the same, but prefers a field that does not only differ in the notation of
// a quantity.
func meaning(a, b any) string { return cmp.Or(differ("", a, b, means), difference(a, b)) }

// sameness says that two values that are neither objects nor lists are the same.
type sameness func(a, b any) bool

func differ(path string, a, b any, same sameness) string {
	switch left := a.(type) {
	case map[string]any:
		if right, ok := b.(map[string]any); ok {
			return differObjects(path, left, right, same)
		}
	case []any:
		if right, ok := b.([]any); ok {
			return differLists(path, left, right, same)
		}
	default:
		if same(a, b) {
			return ""
		}
	}
	return whole(path)
}

// whole is the path of a difference in a value as a whole.
func whole(path string) string { return cmp.Or(path, ".") }

func differObjects(path string, a, b map[string]any, same sameness) string {
	for _, name := range namesOf(a, b) {
		at := join(path, name)
		left, inA := a[name]
		right, inB := b[name]
		if inA != inB {
			return at
		}
		if found := differ(at, left, right, same); found != "" {
			return found
		}
	}
	return ""
}

// namesOf are the names of the members of either, sorted.
func namesOf(a, b map[string]any) []string {
	names := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func differLists(path string, a, b []any, same sameness) string {
	if len(a) != len(b) {
		return whole(path)
	}
	for i := range a {
		if found := differ(path+"["+strconv.Itoa(i)+"]", a[i], b[i], same); found != "" {
			return found
		}
	}
	return ""
}

// equalScalars takes 1 and 1.0 for equal: some hooks know only one kind of
// number.
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
