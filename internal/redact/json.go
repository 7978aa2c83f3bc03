package redact

import (
	"encoding/base64"
	"encoding/json"
	"reflect"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// JSON replaces the values in JSON: those of Secrets by their place, and those in all texts, names and keys. If it is about a
// Secret, its patches are parts of one. JSON without values stays as it is, byte by byte; what is no JSON is replaced.
func (v *Values) JSON(text json.RawMessage, secret bool) json.RawMessage {
	if v == nil || text == nil {
		return text
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read()
	if !v.found || !secret && !MayHaveSecret(text) && len(v.index.findEscaped(string(text))) == 0 {
		return text
	}
	value, err := decode(text)
	if err == nil {
		value = v.inJSON(value, secret)
	} else {
		value, _ = v.replacementOf(string(text))
	}
	masked, _ := json.Marshal(value) //nolint:errchkjson // It was JSON.
	return masked
}

// inJSON replaces the values in a value of JSON.
func (v *Values) inJSON(value any, secret bool) any {
	switch inner := value.(type) {
	case string:
		return v.replace(inner)
	case json.Number:
		if v.known[inner.String()] && len(inner) >= minNumber { // Where a type wants a number, a token is an error.
			plain, _ := v.replacementOf(inner.String())
			return plain
		}
	case []any:
		for i, each := range inner {
			inner[i] = v.inJSON(each, secret)
		}
	case map[string]any:
		return v.inMembers(inner, secret)
	}
	return value
}

func (v *Values) inMembers(members map[string]any, secret bool) map[string]any {
	if object.IsSecret(members) {
		v.maskSecret(members)
	}
	if patch, is := members["patch"].(map[string]any); is && secret {
		v.maskSecret(patch)
	}
	if secret {
		for _, name := range changedSides(members) {
			if members[name] != nil {
				members[name] = v.replacementAt(isData(members["path"]), members[name])
			}
		}
	}
	masked := make(map[string]any, len(members))
	for name, each := range members {
		masked[v.replace(name)] = v.inJSON(each, secret)
	}
	return masked
}

// maskSecret replaces the values of a Secret, or of a patch of one, by their place.
func (v *Values) maskSecret(secret map[string]any) {
	replaceSecret(secret, &v.index, func(path string, value any) string { return v.replacementAt(isData(path), value) })
}

// replacementAt returns what replaces the value of a field.
func (v *Values) replacementAt(encoded bool, value any) string {
	text, is := value.(string)
	if !is {
		whole, _ := json.Marshal(value) //nolint:errchkjson // It was JSON.
		text = string(whole)
	}
	if text == "" {
		return ""
	}
	if used, err := base64.StdEncoding.DecodeString(text); encoded && err == nil {
		text = string(used)
	}
	plain, inData := v.replacementOf(text)
	if encoded {
		return inData
	}
	return plain
}

// EachText replaces all texts and all JSON that a value leads to. It returns a copy, which shares what has neither.
func EachText[T any](value T, text func(string) string, raw func(json.RawMessage) json.RawMessage) T {
	walker{text, raw}.replace(reflect.ValueOf(&value).Elem())
	return value
}

type walker struct {
	text func(string) string
	raw  func(json.RawMessage) json.RawMessage
}

func (w walker) replace(value reflect.Value) {
	switch value.Kind() {
	case reflect.String:
		value.SetString(w.text(value.String()))
	case reflect.Pointer:
		if !value.IsNil() {
			copied := reflect.New(value.Type().Elem())
			copied.Elem().Set(value.Elem())
			w.replace(copied.Elem())
			value.Set(copied)
		}
	case reflect.Struct:
		for _, field := range value.Fields() {
			if field.CanSet() {
				w.replace(field)
			}
		}
	case reflect.Slice:
		w.replaceItems(value)
	}
}

func (w walker) replaceItems(value reflect.Value) {
	if value.Type() == reflect.TypeFor[json.RawMessage]() {
		value.SetBytes(w.raw(value.Bytes()))
		return
	}
	if value.IsNil() {
		return
	}
	copied := reflect.MakeSlice(value.Type(), value.Len(), value.Len())
	reflect.Copy(copied, value)
	for i := range copied.Len() {
		w.replace(copied.Index(i))
	}
	value.Set(copied)
}
