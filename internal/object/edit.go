package object

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Field returns the bytes of the value at a path such as Field("spec", "selector"); nil if missing or null. Read-only.
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

// Finalizers returns metadata.finalizers. Since few objects have any, they are read on each use.
func (o *Object) Finalizers() []string {
	var names []string
	if field := o.Field("metadata", "finalizers"); field != nil {
		// Parse has checked the strings.
		_ = json.Unmarshal(field, &names)
	}
	return names
}

// HasFinalizer reports whether the object has a finalizer.
func (o *Object) HasFinalizer(name string) bool {
	return name != "" && bytes.Contains(o.raw, []byte(name)) && slices.Contains(o.Finalizers(), name)
}

// Time returns a time in the metadata, such as creationTimestamp; zero if it is absent.
func (o *Object) Time(name string) (at time.Time) {
	if field := o.Field("metadata", name); field != nil && json.Unmarshal(field, &at) != nil {
		return time.Time{} // The API server writes only valid times.
	}
	return at
}

// Revision returns the number of a ControllerRevision; 0 for other objects.
func (o *Object) Revision() int64 {
	number, _ := strconv.ParseInt(string(o.Field("revision")), 10, 64) // The API server requires a number.
	return number
}

// Edit is a value to set at a path of member names. A nil Value removes the member.
type Edit struct {
	Value []byte
	Path  []string
}

// With returns a copy with a value set. It creates missing objects on the path. A nil value removes the member.
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
	if !found && value == nil {
		return data, nil
	}
	if len(path) > 1 {
		old := []byte("{}")
		if found && data[member.value.from] != 'n' {
			old = data[member.value.from:member.value.to]
		}
		if old[0] != '{' {
			return nil, fmt.Errorf("%s is no object", path[0])
		}
		var err error
		if value, err = splice(old, value, path[1:]); err != nil {
			return nil, err
		}
	}
	switch {
	case !found:
		return appendMember(data, path[0], value), nil
	case value == nil:
		cut := memberExtent(data, member.span)
		return concat(data[:cut.from], data[cut.to:]), nil
	}
	return concat(data[:member.value.from], value, data[member.value.to:]), nil
}

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

// seek reads the next value up to that of a member. It returns the start of the member, and whether there is one.
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

// JSONWithManagedFields returns the JSON including metadata.managedFields, if they are kept.
func (o *Object) JSONWithManagedFields() []byte {
	if !o.managed {
		return o.JSON()
	}
	all := o.raw[:cap(o.raw)]
	end := len(all) - managedTail
	value := all[end-int(binary.BigEndian.Uint32(all[end:])) : end]
	member, _ := find(o.raw, "metadata") // It contained them.
	metadata := appendMember(o.raw[member.value.from:member.value.to], "managedFields", value)
	return concat(o.raw[:member.value.from], metadata, o.raw[member.value.to:])
}
