package object

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// FirstDifference returns the path of the first field in which two JSON values differ, by sorted names;
// "" if they are equal.
func FirstDifference(a, b any) string { return DifferenceBy("", a, b, EqualScalars) }

// EqualFunc compares two scalars.
type EqualFunc func(a, b any) bool

// DifferenceBy is FirstDifference with another comparison of scalars, below a path.
func DifferenceBy(path string, a, b any, same EqualFunc) string {
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
	return PathOrRoot(path)
}

// PathOrRoot returns a path, or "." for the empty one.
func PathOrRoot(path string) string { return cmp.Or(path, ".") }

func diffObjects(path string, a, b map[string]any, same EqualFunc) string {
	for _, name := range memberNames(a, b) {
		at := JoinPath(path, name)
		left, inA := a[name]
		right, inB := b[name]
		if inA != inB {
			return at
		}
		if found := DifferenceBy(at, left, right, same); found != "" {
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

func diffLists(path string, a, b []any, same EqualFunc) string {
	if len(a) != len(b) {
		return PathOrRoot(path)
	}
	for i := range a {
		if found := DifferenceBy(path+"["+strconv.Itoa(i)+"]", a[i], b[i], same); found != "" {
			return found
		}
	}
	return ""
}

// EqualScalars treats 1 and 1.0 as equal: some hooks have only one type of number. Two integers are compared
// exactly: float64 has not all of them above 2^53.
func EqualScalars(a, b any) bool {
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	if a == b {
		return true
	}
	_, isInteger := a.(int64)
	_, isIntegerToo := b.(int64)
	if isInteger && isIntegerToo {
		return false
	}
	left, isNumber := Number(a)
	right, isNumberToo := Number(b)
	return isNumber && isNumberToo && left == right
}

// Number returns a decoded number.
func Number(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
