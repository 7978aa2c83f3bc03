package mergepatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Member is one member of a JSON object, as text; its name has quotes.
type Member struct{ Name, Value []byte }

// Members are those of a JSON object, in order. Only their boundaries are parsed: most
// have the same text as another object, and are not parsed further.
type Members []Member

var errNoObject = errors.New("not a JSON object")

// Read reads the JSON of a Go value.
func Read(data []byte) (all Members, err error) {
	if len(data) == 0 || data[0] != '{' {
		return nil, errNoObject
	}
	err = object.Members(data, func(name, value []byte) error {
		all = append(all, Member{name, value})
		return nil
	})
	return all, err
}

// index returns the index of a member whose name needs no escapes, or -1.
func (m Members) index(name string) int {
	return slices.IndexFunc(m, func(one Member) bool { return isNamed(one.Name, name) })
}

func isNamed(quoted []byte, name string) bool { return string(quoted[1:len(quoted)-1]) == name }

// named returns the value of a member by its name as JSON, or nil.
func (m Members) named(quoted []byte) []byte {
	for _, one := range m {
		if bytes.Equal(one.Name, quoted) {
			return one.Value
		}
	}
	return nil
}

// Text returns the value of a member, or nil.
func (m Members) Text(name string) []byte {
	if at := m.index(name); at >= 0 {
		return m[at].Value
	}
	return nil
}

// Unquoted decodes a JSON string; other values are "".
func Unquoted(quoted []byte) string {
	if len(quoted) == 0 || quoted[0] != '"' {
		return ""
	}
	return string(object.Unquoted(quoted))
}

// With returns the members with one set.
func (m Members) With(name string, value []byte) Members {
	if at := m.index(name); at >= 0 {
		m[at].Value = value
		return m
	}
	return append(m, Member{[]byte(`"` + name + `"`), value})
}

// Without returns the members without some.
func (m Members) Without(names ...string) Members {
	return slices.DeleteFunc(m, func(one Member) bool {
		return slices.Contains(names, string(one.Name[1:len(one.Name)-1]))
	})
}

// JSON encodes the members.
func (m Members) JSON() []byte {
	size := len("{}")
	for _, one := range m {
		size += len(one.Name) + len(one.Value) + len(":,")
	}
	out := append(make([]byte, 0, size), '{')
	for i, one := range m {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, one.Name...), ':'), one.Value...)
	}
	return append(out, '}')
}

// Quoted encodes a JSON string.
func Quoted(text string) []byte {
	data, _ := json.Marshal(text) //nolint:errchkjson // There is no string that cannot be written.
	return data
}

// IsNull reports whether a value is null.
func IsNull(value []byte) bool { return bytes.Equal(value, []byte("null")) }
