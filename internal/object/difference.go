package object

import (
	"cmp"
	"encoding/json"
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

// FieldChange is a field whose value changes.
type FieldChange struct {
	// Path is such as "spec.ports[port=80].nodePort". List items are named by their key, or by
	// their index if they have none.
	Path string `json:"path"`
	// From and To are the values as JSON; nil if there is none.
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`
}

// Changes returns the fields in which two decoded objects differ, sorted by path. It compares list
// items by index, an added or removed object is one change, and null is no value.
func Changes(before, after map[string]any) []FieldChange {
	var found changes
	found.compareMembers("", before, after)
	return found.list
}

// KeyedChanges is Changes, but compares list items by their key if they have one, reports an added
// or removed object by its fields, and null as a value.
func KeyedChanges(before, after map[string]any) []FieldChange {
	found := changes{keys: displayKeys}
	found.compareMembers("", before, after)
	return found.list
}

// changes collects the differences of two values.
type changes struct {
	// keys are the keys of list items; without any, items are compared by index.
	keys []ItemKey
	list []FieldChange
}

// compare adds the fields in which two values differ.
func (c *changes) compare(path string, before, after any) {
	if left, right, areObjects := bothOf[map[string]any](c, before, after); areObjects {
		c.compareMembers(path, left, right)
		return
	}
	if left, right, areLists := bothOf[[]any](c, before, after); areLists {
		c.compareLists(path, left, right)
		return
	}
	if FirstDifference(before, after) != "" {
		c.list = append(c.list, FieldChange{Path: path, From: encoded(before), To: encoded(after)})
	}
}

// bothOf returns the two values if they have the same type. With keys, a missing value counts as an
// empty one, unless both are empty.
func bothOf[T map[string]any | []any](c *changes, before, after any) (left, right T, fit bool) {
	left, isLeft := before.(T)
	right, isRight := after.(T)
	if c.keys == nil {
		return left, right, isLeft && isRight
	}
	return left, right, (isLeft || before == nil) && (isRight || after == nil) && len(left)+len(right) > 0
}

func (c *changes) compareMembers(path string, before, after map[string]any) {
	for _, name := range memberNames(before, after) {
		left, isLeft := before[name]
		right, isRight := after[name]
		c.compare(JoinPath(path, name), c.given(left, isLeft), c.given(right, isRight))
	}
}

// compareLists compares items with the same key, or with the same index.
func (c *changes) compareLists(path string, before, after []any) {
	for _, key := range c.keys {
		left, fits := key.Index(before)
		right, fitsToo := key.Index(after)
		if fits && fitsToo {
			c.compareKeyed(path, key, left, right)
			return
		}
	}
	for i := range max(len(before), len(after)) {
		c.compare(path+"["+strconv.Itoa(i)+"]", c.itemAt(before, i), c.itemAt(after, i))
	}
}

func (c *changes) itemAt(list []any, i int) any {
	if i < len(list) {
		return c.given(list[i], true)
	}
	return nil
}

// null is a null that differs from no value.
type null struct{}

// MarshalJSON encodes null.
func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// given returns a value, nil for none.
func (c *changes) given(value any, given bool) any {
	if given && value == nil && c.keys != nil {
		return null{}
	}
	return value
}

func (c *changes) compareKeyed(path string, key ItemKey, before, after Items) {
	order := slices.Clone(before.Order)
	for _, id := range after.Order {
		if _, known := before.ByID[id]; !known {
			order = append(order, id)
		}
	}
	for _, id := range order {
		c.compare(path+"["+key.describe(id)+"]", before.ByID[id], after.ByID[id])
	}
}

// encoded returns a decoded value as JSON; nil for none.
func encoded(value any) json.RawMessage {
	if value == nil {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil // Decoded JSON always encodes.
	}
	return text
}
