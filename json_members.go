package setpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// member is one member of a JSON object, as text.
type member struct{ name, value []byte }

// members are those of a JSON object, in order. Only their boundaries are parsed: most
// have the same text as another object, and are not parsed further.
type members []member

var errNoObject = errors.New("not a JSON object")

// readMembers reads the JSON of a Go value.
func readMembers(data []byte) (all members, err error) {
	if len(data) == 0 || data[0] != '{' {
		return nil, errNoObject
	}
	err = object.Members(data, func(name, value []byte) error {
		all = append(all, member{name, value})
		return nil
	})
	return all, err
}

// index returns the index of a member whose name needs no escapes, or -1.
func (m members) index(name string) int {
	return slices.IndexFunc(m, func(one member) bool { return isNamed(one.name, name) })
}

func isNamed(quoted []byte, name string) bool { return string(quoted[1:len(quoted)-1]) == name }

// named returns the value of a member by its name as JSON, or nil.
func (m members) named(quoted []byte) []byte {
	for _, one := range m {
		if bytes.Equal(one.name, quoted) {
			return one.value
		}
	}
	return nil
}

// text returns the value of a member, or nil.
func (m members) text(name string) []byte {
	if at := m.index(name); at >= 0 {
		return m[at].value
	}
	return nil
}

// textOf decodes a JSON string; other values are "".
func textOf(quoted []byte) string {
	if len(quoted) == 0 || quoted[0] != '"' {
		return ""
	}
	return string(object.Unquoted(quoted))
}

// with returns the members with one set.
func (m members) with(name string, value []byte) members {
	if at := m.index(name); at >= 0 {
		m[at].value = value
		return m
	}
	return append(m, member{[]byte(`"` + name + `"`), value})
}

// without returns the members without some.
func (m members) without(names ...string) members {
	return slices.DeleteFunc(m, func(one member) bool {
		return slices.ContainsFunc(names, func(name string) bool { return isNamed(one.name, name) })
	})
}

// JSON encodes the members.
func (m members) JSON() []byte {
	size := len("{}")
	for _, one := range m {
		size += len(one.name) + len(one.value) + len(":,")
	}
	out := append(make([]byte, 0, size), '{')
	for i, one := range m {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, one.name...), ':'), one.value...)
	}
	return append(out, '}')
}

func quoted(text string) []byte {
	data, _ := json.Marshal(text) //nolint:errchkjson // There is no string that cannot be written.
	return data
}

func isNull(value []byte) bool { return bytes.Equal(value, []byte("null")) }
