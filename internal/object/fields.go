package object

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	strict "sigs.k8s.io/json"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// Decode decodes a JSON object. Integers stay integers.
func Decode(data []byte) (fields map[string]any, err error) {
	err = utiljson.Unmarshal(data, &fields)
	return fields, err
}

// DecodeExact is Decode, but numbers keep their text, and what is no object is an error.
func DecodeExact(data []byte) (fields map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err = decoder.Decode(&fields)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); other || err == nil && fields == nil {
		return nil, errors.New("must be an object")
	}
	return fields, err
}

// DecodeOrEmpty is Decode, but other values than objects become an empty object, so that lookups find nothing.
func DecodeOrEmpty(data []byte) map[string]any {
	if fields, err := Decode(data); err == nil && fields != nil {
		return fields
	}
	return map[string]any{}
}

// Encode returns the object with decoded fields.
func Encode(fields map[string]any) (*Object, error) {
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// FieldAt returns the value at a path of member names; nil if there is none.
func FieldAt(fields map[string]any, path ...string) any {
	var value any = fields
	for _, name := range path {
		members, _ := value.(map[string]any)
		value = members[name]
	}
	return value
}

// SetField sets the value at a path of member names. It replaces values on the way that are not objects.
func SetField(fields map[string]any, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		below, isObject := fields[name].(map[string]any)
		if !isObject {
			below = map[string]any{}
			fields[name] = below
		}
		fields = below
	}
	fields[path[len(path)-1]] = value
}

// DecodeStrictly decodes JSON of a user. Its errors name all unknown and duplicate fields, and one of a wrong type.
func DecodeStrictly(data []byte, into any) []error {
	problems, err := strict.UnmarshalStrict(data, into)
	if err != nil {
		problems = append(problems, TypeError(data, err))
	}
	return problems
}

// TypeError adds the field, with the indices of lists, to an error about a value of a wrong type in JSON.
func TypeError(data []byte, err error) error {
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		field, _ := fieldAtOffset(json.NewDecoder(bytes.NewReader(data)), wrong.Offset, "")
		err = fmt.Errorf("%s: cannot be a JSON %s", field, wrong.Value)
	}
	return err
}

// fieldAtOffset finds the value whose first token ends at an offset, among a value at a path and what is in it.
func fieldAtOffset(d *json.Decoder, offset int64, path string) (field string, found bool) {
	token, err := d.Token()
	if err != nil || d.InputOffset() >= offset {
		return path, true
	}
	_, isList := token.(json.Delim)
	for i := 0; isList && d.More() && !found; i++ {
		below := itemPath(path, i)
		if token == json.Delim('{') {
			name, _ := d.Token()
			below = strings.TrimPrefix(fmt.Sprintf("%s.%s", path, name), ".")
		}
		field, found = fieldAtOffset(d, offset, below)
	}
	if isList && !found {
		_, _ = d.Token() // Its end.
	}
	return field, found
}

// MergePatch returns an object with a JSON merge patch applied. It shares the values of both.
func MergePatch(target, patch map[string]any) map[string]any { return merged(target, patch, false) }

// CombinePatches returns one merge patch that has the effect of two.
func CombinePatches(first, second map[string]any) map[string]any { return merged(first, second, true) }

// merged returns the members of an object with those of a patch, whose nulls stay or delete. It is never nil.
func merged(members, patch map[string]any, keepNulls bool) map[string]any {
	result := cloneMembers(members)
	for name, value := range patch {
		here, wasObject := result[name].(map[string]any)
		below, isObject := value.(map[string]any)
		if isObject && (wasObject || !keepNulls) {
			value = merged(here, below, keepNulls)
		}
		result[name] = value
		if value == nil && !keepNulls {
			delete(result, name)
		}
	}
	return result
}

// PatchBetween returns the JSON merge patch from one object to another, with the changed members only.
func PatchBetween(was, is map[string]any) map[string]any {
	delta := cloneMembers(is)
	for name, old := range was {
		now, stays := is[name]
		from, wasObject := old.(map[string]any)
		to, isObject := now.(map[string]any)
		switch {
		case wasObject && isObject:
			inner := PatchBetween(from, to)
			if delta[name] = inner; len(inner) == 0 {
				delete(delta, name)
			}
		case !stays:
			delta[name] = nil
		case reflect.DeepEqual(old, now):
			delete(delta, name)
		}
	}
	return delta
}

// cloneMembers returns a shallow copy that is never nil.
func cloneMembers(members map[string]any) map[string]any {
	if members == nil {
		return map[string]any{}
	}
	return maps.Clone(members)
}

// Missing returns the members of an object, other than nulls, that another one lacks at all depths, and the path of the
// first; nil if there are none. The API server drops members that the schema of a kind does not have.
func Missing(want, have map[string]any) (missing map[string]any, first string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, path := want[name], name
		there, exists := have[name]
		inner, isObject := value.(map[string]any)
		below, _ := there.(map[string]any)
		switch {
		case value == nil:
			continue
		case exists && isObject && below != nil:
			part, at := Missing(inner, below)
			if part == nil {
				continue
			}
			value, path = part, JoinPath(name, at)
		case exists:
			continue
		}
		if missing == nil {
			missing, first = map[string]any{}, path
		}
		missing[name] = value
	}
	return missing, first
}

// ItemKey identifies the items of a list by a field and, with protocols, by the protocol. The API has ports by port and
// protocol, TCP by default. With manifests, the items are whole objects, such as the children of a response.
type ItemKey struct {
	Field     string
	protocols bool
	manifests bool
}

// ChildKeys are the keys of lists in children.
var ChildKeys = []ItemKey{
	{Field: "containerPort"}, {Field: "containerPort", protocols: true},
	{Field: "port"}, {Field: "port", protocols: true},
	{Field: "mountPath"}, {Field: "name"}, {Field: "uid"}, {Field: "ip"}, {Field: "path"},
}

// ApplyKeys returns ChildKeys for a server-side apply, where ports of built-in kinds differ by their protocols.
func ApplyKeys(group string) []ItemKey {
	if IsBuiltInGroup(group) {
		return builtInKeys
	}
	return ChildKeys
}

var builtInKeys = slices.DeleteFunc(slices.Clone(ChildKeys), func(k ItemKey) bool {
	return !k.protocols && slices.Contains(ChildKeys, ItemKey{Field: k.Field, protocols: true})
})

// StatusKeys are the keys of lists in a status with several writers.
var StatusKeys = append([]ItemKey{{Field: "type"}}, ChildKeys...)

// displayKeys are the keys of lists in a diff.
var displayKeys = append(slices.Clip(ChildKeys), ItemKey{Field: "type"}, ItemKey{Field: "key"}, ItemKey{manifests: true})

// OwnerKeys is the key of owner references. Owners of different kinds may have the same name.
var OwnerKeys = []ItemKey{{Field: "uid"}}

// Identity is the value of an ItemKey.
type Identity struct {
	value    any
	protocol string
}

// Items are the items of a list by their key.
type Items struct {
	Order []Identity
	ByID  map[Identity]any
}

// Index returns the items by the key; false if an item has no key or two have the same.
func (k ItemKey) Index(list []any) (Items, bool) {
	// Most keys do not fit most lists: allocate only for those that do.
	if slices.ContainsFunc(list, func(item any) bool { _, has := k.of(item); return !has }) {
		return Items{}, false
	}
	found := Items{make([]Identity, 0, len(list)), make(map[Identity]any, len(list))}
	for _, item := range list {
		id, _ := k.of(item)
		if _, shared := found.ByID[id]; shared {
			return Items{}, false
		}
		found.Order = append(found.Order, id)
		found.ByID[id] = item
	}
	return found, true
}

func (k ItemKey) of(item any) (Identity, bool) {
	members, isObject := item.(map[string]any)
	if !isObject {
		return Identity{}, false
	}
	if k.manifests {
		return manifest(members)
	}
	id := Identity{value: members[k.Field]}
	if k.protocols {
		id.protocol = "TCP"
		if protocol, named := members["protocol"].(string); named {
			id.protocol = protocol
		}
	}
	switch value := id.value.(type) {
	case string, int64, bool:
		return id, true
	case float64:
		// 80 and 80.0 are the same port: some hooks have only one type of number.
		if whole := int64(value); float64(whole) == value {
			id.value = whole
		}
		return id, true
	}
	return Identity{}, false
}

// manifest returns the kind, namespace and name of an object. If only groups differ, the list is compared by index.
func manifest(members map[string]any) (Identity, bool) {
	kind, hasKind := members["kind"].(string)
	name, hasName := FieldAt(members, "metadata", "name").(string)
	if namespace, named := FieldAt(members, "metadata", "namespace").(string); named {
		name = namespace + "/" + name
	}
	return Identity{value: kind + " " + name}, hasKind && hasName && kind != "" && name != ""
}

// describe returns a key such as "name=web", "port=53,protocol=UDP" or "Pod web-0".
func (k ItemKey) describe(id Identity) string {
	if k.manifests {
		return fmt.Sprint(id.value)
	}
	text := fmt.Sprintf("%s=%v", k.Field, id.value)
	if k.protocols {
		text += ",protocol=" + id.protocol
	}
	return text
}

// FirstDifference returns the path of the first field in which two JSON values differ, by sorted names; "" for none.
func FirstDifference(a, b any) string { return DifferenceBy("", a, b, EqualScalars) }

// DifferenceBy is FirstDifference with another comparison of scalars, below a path.
func DifferenceBy(path string, a, b any, same func(a, b any) bool) string {
	switch left := a.(type) {
	case map[string]any:
		if right, isObject := b.(map[string]any); isObject {
			return differenceOfMembers(path, left, right, same)
		}
	case []any:
		if right, isList := b.([]any); isList && len(left) == len(right) {
			return differenceOfItems(path, left, right, same)
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

func differenceOfItems(path string, a, b []any, same func(a, b any) bool) string {
	for i := range a {
		if found := DifferenceBy(itemPath(path, i), a[i], b[i], same); found != "" {
			return found
		}
	}
	return ""
}

func differenceOfMembers(path string, a, b map[string]any, same func(a, b any) bool) string {
	for _, name := range lists.Keys(a, b) {
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

// EqualScalars treats 1 and 1.0 as equal: some hooks have only one type of number. Integers are compared exactly.
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
	// Path is such as "spec.ports[port=80].nodePort". List items are named by their key, or else by their index.
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

// KeyedChanges is Changes, but compares list items by key, reports an added or removed object by its fields, and nulls.
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

// bothOf returns two values of the same type. With keys, a missing value counts as an empty one, unless both are empty.
func bothOf[T map[string]any | []any](c *changes, before, after any) (left, right T, fit bool) {
	left, isLeft := before.(T)
	right, isRight := after.(T)
	if c.keys == nil {
		return left, right, isLeft && isRight
	}
	return left, right, (isLeft || before == nil) && (isRight || after == nil) && len(left)+len(right) > 0
}

func (c *changes) compareMembers(path string, before, after map[string]any) {
	for _, name := range lists.Keys(before, after) {
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
		if !fits || !fitsToo {
			continue
		}
		added := lists.Filter(right.Order, func(id Identity) bool { _, known := left.ByID[id]; return !known })
		for _, id := range slices.Concat(left.Order, added) {
			c.compare(path+"["+key.describe(id)+"]", left.ByID[id], right.ByID[id])
		}
		return
	}
	for i := range max(len(before), len(after)) {
		c.compare(itemPath(path, i), c.itemAt(before, i), c.itemAt(after, i))
	}
}

func (c *changes) itemAt(list []any, i int) any {
	if i >= len(list) {
		return nil
	}
	return c.given(list[i], true)
}

// null is a null that differs from no value.
type null struct{}

// MarshalJSON encodes null.
func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

func (c *changes) given(value any, given bool) any {
	if given && value == nil && c.keys != nil {
		return null{}
	}
	return value
}

// encoded returns a decoded value as JSON; nil for none.
func encoded(value any) (text json.RawMessage) {
	if value != nil {
		text, _ = json.Marshal(value) //nolint:errchkjson // Decoded JSON always encodes.
	}
	return text
}
