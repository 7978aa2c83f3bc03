package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Field returns the bytes of the value at a path of member names, such as
// Field("spec", "selector"); nil if it is missing or null. Read-only.
func (o *Object) Field(path ...string) []byte {
	dec := newDecoder(o.raw)
	defer dec.release()
	for _, name := range path {
		if _, ok := seek(&dec.Decoder, name); !ok {
			return nil
		}
	}
	value, _ := dec.ReadValue() // Parse has checked it.
	if bytes.Equal(value, []byte("null")) {
		return nil
	}
	return value
}

// Edit is a value to set at a path of member names. A nil Value removes the
// member.
type Edit struct {
	Value []byte
	Path  []string
}

// With returns a copy of the object with a value set. It creates missing objects on the path.
// A nil value removes the member.
func (o *Object) With(value []byte, path ...string) (*Object, error) {
	return o.Edited(Edit{Value: value, Path: path})
}

// WithValue is With for a value that is not JSON yet.
func (o *Object) WithValue(value any, path ...string) (*Object, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return o.With(data, path...)
}

// Edited returns a copy of the object with several edits, one after the other.
func (o *Object) Edited(edits ...Edit) (*Object, error) {
	raw := o.JSONWithManagedFields()
	for _, edit := range edits {
		var err error
		if raw, err = splice(raw, edit.Value, edit.Path); err != nil {
			return nil, fmt.Errorf("set %s of %s: %w", strings.Join(edit.Path, "."), o.Ref(), err)
		}
	}
	return parse(raw, "", "", o.managed)
}

// splice sets a member in a JSON object and returns new bytes.
func splice(data, value []byte, path []string) ([]byte, error) {
	member, found := find(data, path[0])
	old := []byte("{}")
	if found && data[member.value.from] != 'n' {
		old = data[member.value.from:member.value.to]
	}
	if len(path) > 1 {
		if value == nil && !found {
			return data, nil
		}
		if old[0] != '{' {
			return nil, fmt.Errorf("%s is no object", path[0])
		}
		inner, err := splice(old, value, path[1:])
		if err != nil {
			return nil, err
		}
		value = inner
	}
	switch {
	case found && value == nil:
		return withoutMember(data, member.span), nil
	case found:
		return concat(data[:member.value.from], value, data[member.value.to:]), nil
	case value == nil:
		return data, nil
	}
	return appendMember(data, path[0], value), nil
}

// appendMember appends a member to a JSON object.
func appendMember(data []byte, name string, value []byte) []byte {
	open := bytes.TrimRight(data[:bytes.LastIndexByte(data, '}')], " \t\r\n")
	key, _ := jsontext.AppendQuote(nil, name)
	comma := ","
	if bytes.HasSuffix(open, []byte("{")) {
		comma = ""
	}
	return concat(open, []byte(comma), key, []byte(":"), value, []byte("}"))
}

// member is the span of a member in a JSON object.
type member struct {
	span
	value span
}

// find returns a member of a valid JSON object.
func find(data []byte, name string) (member, bool) {
	dec := newDecoder(data)
	defer dec.release()
	from, ok := seek(&dec.Decoder, name)
	if !ok {
		return member{}, false
	}
	value, _ := dec.ReadValue() // It is valid.
	to := dec.InputOffset()
	return member{span{from, to}, span{to - int64(len(value)), to}}, true
}

// seek reads the beginning of the next value, up to the value of a member. It returns the start
// of the member, and whether there is one.
func seek(dec *jsontext.Decoder, name string) (from int64, ok bool) {
	if dec.PeekKind() != '{' {
		return 0, false
	}
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() == '"' {
		var quoted []byte
		if quoted, err = dec.ReadValue(); err != nil {
			break
		}
		if string(Unquoted(quoted)) == name {
			return dec.InputOffset() - int64(len(quoted)), true
		}
		_, err = dec.ReadValue()
	}
	return 0, false
}

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// FieldPath converts a JSON pointer to a field path: "/spec/containers/0/image" to
// "spec.containers[0].image".
func FieldPath(pointer string) string {
	var path strings.Builder
	for token := range jsontext.Pointer(pointer).Tokens() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil && path.Len() > 0 {
			path.WriteString("[" + token + "]")
			continue
		}
		if path.Len() > 0 {
			path.WriteByte('.')
		}
		path.WriteString(token)
	}
	return path.String()
}

// ParsePath parses a field path: names with dots between them, and names that contain dots in
// brackets and quotes, as in metadata.annotations["example.com/note"]. It has no list items.
func ParsePath(text string) ([]string, error) {
	var path []string
	for rest := text; rest != ""; {
		name, after, err := firstName(rest, len(path) == 0)
		if err != nil {
			return nil, fmt.Errorf(`%q is no field path: %w; separate names by dots, such as spec.currency, and quote names that contain dots, such as metadata.annotations["example.com/note"]`, text, err)
		}
		path, rest = append(path, name), after
	}
	switch {
	case len(path) == 0:
		return nil, errors.New("field path is empty; an example is spec.currency")
	case len(path) > 3 && path[0] == "metadata" && (path[1] == "labels" || path[1] == "annotations"):
		return nil, fmt.Errorf(`%q leads into a string; quote a name that contains dots: %s.%s["example.com/note"]`, text, path[0], path[1])
	}
	return path, nil
}

// JoinPath appends a member to a field path.
func JoinPath(path, name string) string {
	switch {
	case name == "" || strings.ContainsAny(name, "./[]"):
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// firstName reads the first name of a path.
func firstName(text string, first bool) (name, rest string, err error) {
	if strings.HasPrefix(text, "[") {
		return quotedName(text)
	}
	if !first {
		var dotted bool
		if text, dotted = strings.CutPrefix(text, "."); !dotted {
			return "", "", fmt.Errorf("%q follows a bracket", text)
		}
	}
	end := strings.IndexAny(text, ".[]")
	if end < 0 {
		end = len(text)
	}
	if end == 0 {
		return "", "", errors.New("a name is missing")
	}
	return text[:end], text[end:], nil
}

func quotedName(text string) (name, rest string, err error) {
	for _, quote := range []string{`"`, `'`} {
		inner, quoted := strings.CutPrefix(text, "["+quote)
		if !quoted {
			continue
		}
		name, rest, _ := strings.Cut(inner, quote)
		rest, closed := strings.CutPrefix(rest, "]")
		if !closed || name == "" {
			return "", "", errors.New("a bracket is not closed, or empty")
		}
		return name, rest, nil
	}
	return "", "", errors.New("list items cannot be selected")
}
