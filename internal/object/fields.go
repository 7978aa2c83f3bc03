package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

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
