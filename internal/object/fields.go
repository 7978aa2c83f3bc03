package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	strict "sigs.k8s.io/json"
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

// DecodeOrEmpty decodes the fields of an object; integers stay integers. Other values become an empty object, so that
// lookups find nothing.
func DecodeOrEmpty(data []byte) map[string]any {
	fields, err := Decode(data)
	if err != nil || fields == nil {
		return map[string]any{}
	}
	return fields
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

// SetField sets the value at a path of member names. It replaces values on the way that are not
// objects.
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

// DecodeStrictly decodes JSON that a user has written. It returns all unknown and duplicate fields, and a value of a wrong
// type, each with its field.
func DecodeStrictly(data []byte, into any) []error {
	problems, err := strict.UnmarshalStrict(data, into)
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		err = fmt.Errorf("%s: cannot be a JSON %s", wrong.Field, wrong.Value)
	}
	if err != nil {
		problems = append(problems, err)
	}
	return problems
}

// MergePatch returns an object with a JSON merge patch applied. It shares the values of both.
func MergePatch(target, patch map[string]any) map[string]any {
	result := cloneMembers(target)
	for name, value := range patch {
		below, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(result, name)
		case isObject:
			here, _ := result[name].(map[string]any)
			result[name] = MergePatch(here, below)
		default:
			result[name] = value
		}
	}
	return result
}

// PatchBetween returns the JSON merge patch from one object to another, with the changed members only.
func PatchBetween(was, is map[string]any) map[string]any {
	delta := map[string]any{}
	for name, old := range was {
		now := is[name]
		from, isObject := old.(map[string]any)
		to, staysObject := now.(map[string]any)
		if isObject && staysObject {
			if inner := PatchBetween(from, to); len(inner) > 0 {
				delta[name] = inner
			}
		} else if _, stays := is[name]; !stays || !reflect.DeepEqual(old, now) {
			delta[name] = now
		}
	}
	for name, now := range is {
		if _, had := was[name]; !had {
			delta[name] = now
		}
	}
	return delta
}

// CombinePatches returns one merge patch that has the effect of two.
func CombinePatches(first, second map[string]any) map[string]any {
	result := cloneMembers(first)
	for name, value := range second {
		here, wasObject := result[name].(map[string]any)
		below, isObject := value.(map[string]any)
		if wasObject && isObject {
			value = CombinePatches(here, below)
		}
		result[name] = value
	}
	return result
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
