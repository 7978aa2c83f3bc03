package starlark

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// encode is the response in JSON. The language's own json.encode sorts keys, and does not say where
// the value is that it refuses.
func encode(response starlark.Value, function string) ([]byte, error) {
	switch response.(type) {
	case *starlark.Dict, *starlarkstruct.Struct:
		var json bytes.Buffer
		e := &encoder{json: jsontext.NewEncoder(&json, jsontext.AllowDuplicateNames(true))} // A dict and a struct have none.
		err := e.add(response)
		return bytes.TrimSpace(json.Bytes()), err
	}
	hint := ""
	if response == starlark.None {
		hint = ": does it lack a return?"
	}
	return nil, fmt.Errorf("the function %s returned %s, not a dict%s", function, describe(response), hint)
}

func describe(v starlark.Value) string {
	if v == starlark.None {
		return "None"
	}
	return "a " + v.Type()
}

type encoder struct {
	json *jsontext.Encoder
	// path leads to the value that is encoded.
	path []step
	// above are the containers that the value is in.
	above []starlark.Value
}

// step is a field of an object, or an index of an array.
type step struct {
	field string
	index int
}

// refuse is an error with the path of the value.
func (e *encoder) refuse(format string, args ...any) error {
	path := []byte("response")
	for _, s := range e.path {
		if s.field != "" {
			path = append(append(path, '.'), s.field...)
		} else {
			path = fmt.Appendf(path, "[%d]", s.index)
		}
	}
	return fmt.Errorf("%s "+format, append([]any{path}, args...)...)
}

func (e *encoder) add(v starlark.Value) error {
	switch v := v.(type) {
	case starlark.NoneType:
		return e.json.WriteToken(jsontext.Null)
	case starlark.Bool:
		return e.json.WriteToken(jsontext.Bool(bool(v)))
	case starlark.Int:
		i, ok := v.Int64()
		if !ok {
			return e.refuse("is %s, which is not a 64-bit integer", v)
		}
		return e.json.WriteToken(jsontext.Int(i))
	case starlark.Float:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return e.refuse("is %v, which JSON does not have", v)
		}
		return e.json.WriteToken(jsontext.Float(float64(v))) // 2.0 is 2, as everywhere in JSON
	case starlark.String:
		if err := e.json.WriteToken(jsontext.String(string(v))); err != nil {
			return e.refuse("is not UTF-8")
		}
		return nil
	case *starlark.List:
		return e.within(v, func() error { return e.addList(v) })
	case starlark.Tuple:
		return e.within(v, func() error { return e.addList(v) })
	case *starlark.Dict:
		return e.within(v, func() error { return e.addObject(v.Items()) })
	case *starlarkstruct.Struct:
		return e.within(v, func() error { return e.addObject(fieldsOf(v)) })
	}
	return e.refuse("is %s, which JSON does not have", describe(v))
}

// within adds a container, which must not be in itself.
func (e *encoder) within(v starlark.Value, add func() error) error {
	if _, isTuple := v.(starlark.Tuple); !isTuple && slices.Contains(e.above, v) {
		return e.refuse("contains itself")
	}
	if len(e.above) == maxDepth {
		return fmt.Errorf("the response has more than %d levels", maxDepth)
	}
	e.above = append(e.above, v)
	err := add()
	e.above = e.above[:len(e.above)-1]
	return err
}

func (e *encoder) addList(list starlark.Indexable) error {
	if err := e.json.WriteToken(jsontext.BeginArray); err != nil {
		return err
	}
	for i := range list.Len() {
		e.path = append(e.path, step{index: i})
		if err := e.add(list.Index(i)); err != nil {
			return err
		}
		e.path = e.path[:len(e.path)-1]
	}
	return e.json.WriteToken(jsontext.EndArray)
}

func (e *encoder) addObject(fields []starlark.Tuple) error {
	if err := e.json.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, item := range fields {
		key, isString := item[0].(starlark.String)
		if !isString {
			return e.refuse("has the key %s, which is not a string", item[0])
		}
		e.path = append(e.path, step{field: string(key)})
		for _, each := range item {
			if err := e.add(each); err != nil {
				return err
			}
		}
		e.path = e.path[:len(e.path)-1]
	}
	return e.json.WriteToken(jsontext.EndObject)
}

// fieldsOf returns the names and values of a struct like the items of a dict.
func fieldsOf(s *starlarkstruct.Struct) (all []starlark.Tuple) {
	for _, name := range s.AttrNames() {
		v, _ := s.Attr(name) // The struct has just named it.
		all = append(all, starlark.Tuple{starlark.String(name), v})
	}
	return all
}
