package starlark

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// encode is the response in JSON. The language's own json.encode sorts keys, and does not say where
// the value is that it refuses.
func encode(response starlark.Value, function string) ([]byte, error) {
	switch response.(type) {
	case *starlark.Dict, *starlarkstruct.Struct:
		e := &encoder{}
		err := e.add(response)
		return e.json, err
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
	json []byte
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
		e.json = append(e.json, "null"...)
	case starlark.Bool:
		e.json = strconv.AppendBool(e.json, bool(v))
	case starlark.Int:
		i, ok := v.Int64()
		if !ok {
			return e.refuse("is %s, which is not a 64-bit integer", v)
		}
		e.json = strconv.AppendInt(e.json, i, 10)
	case starlark.Float:
		return e.addFloat(float64(v))
	case starlark.String:
		return e.addString(string(v))
	case *starlark.List:
		return e.within(v, func() error { return e.addList(v) })
	case starlark.Tuple:
		return e.within(v, func() error { return e.addList(v) })
	case *starlark.Dict:
		return e.within(v, func() error { return e.addDict(v) })
	case *starlarkstruct.Struct:
		return e.within(v, func() error { return e.addStruct(v) })
	default:
		return e.refuse("is %s, which JSON does not have", describe(v))
	}
	return nil
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
	e.json = append(e.json, '[')
	for i := range list.Len() {
		e.comma(i)
		e.path = append(e.path, step{index: i})
		if err := e.add(list.Index(i)); err != nil {
			return err
		}
		e.path = e.path[:len(e.path)-1]
	}
	e.json = append(e.json, ']')
	return nil
}

func (e *encoder) addDict(dict *starlark.Dict) error {
	e.json = append(e.json, '{')
	for i, item := range dict.Items() {
		key, isString := item[0].(starlark.String)
		if !isString {
			return e.refuse("has the key %s, which is not a string", item[0])
		}
		if err := e.addField(i, string(key), item[1]); err != nil {
			return err
		}
	}
	e.json = append(e.json, '}')
	return nil
}

func (e *encoder) addStruct(s *starlarkstruct.Struct) error {
	e.json = append(e.json, '{')
	for i, name := range s.AttrNames() {
		v, err := s.Attr(name)
		if err != nil {
			return err
		}
		if err := e.addField(i, name, v); err != nil {
			return err
		}
	}
	e.json = append(e.json, '}')
	return nil
}

func (e *encoder) addField(i int, key string, v starlark.Value) error {
	e.path = append(e.path, step{field: key})
	e.comma(i)
	if err := e.addString(key); err != nil {
		return err
	}
	e.json = append(e.json, ':')
	err := e.add(v)
	if err == nil {
		e.path = e.path[:len(e.path)-1]
	}
	return err
}

func (e *encoder) comma(i int) {
	if i > 0 {
		e.json = append(e.json, ',')
	}
}

func (e *encoder) addFloat(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return e.refuse("is %v, which JSON does not have", starlark.Float(f))
	}
	text, err := json.Marshal(f) // 2.0 is 2, as everywhere in JSON
	e.json = append(e.json, text...)
	return err
}

func (e *encoder) addString(s string) error {
	if isPlain(s) {
		e.json = append(append(append(e.json, '"'), s...), '"')
		return nil
	}
	if !utf8.ValidString(s) {
		return e.refuse("is not UTF-8")
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(s)
	e.json = append(e.json, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
	return err
}

// isPlain reports whether a string has nothing to escape, as most have.
func isPlain(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
