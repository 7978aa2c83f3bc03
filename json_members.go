package setpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// member is one member of a JSON object, as text.
type member struct{ name, value []byte }

// members are those of a JSON object, in order. Only their boundaries are parsed: most
// have the same text as another object, and are not parsed further.
type members []member

var errNoObject = errors.New("not a JSON object")

// readMembers parses JSON that json.Marshal wrote: it is valid, compact, and has no
// duplicate names.
func readMembers(data []byte) (members, error) {
	if len(data) == 0 || data[0] != '{' {
		return nil, errNoObject
	}
	var all members
	for at := 1; data[at] == '"'; {
		name := data[at : at+valueEnd(data[at:])]
		at += len(name) + 1
		value := data[at : at+valueEnd(data[at:])]
		at += len(value) + 1
		all = append(all, member{name, value})
		if at >= len(data) {
			break
		}
	}
	return all, nil
}

// valueEnd returns the end of the value at the start of data.
func valueEnd(data []byte) int {
	depth := 0
	for at := 0; at < len(data); at++ {
		switch data[at] {
		case '"':
			at += stringEnd(data[at:])
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':':
			if depth == 0 {
				return at
			}
			continue
		default:
			continue
		}
		switch {
		case depth < 0:
			return at
		case depth == 0:
			return at + 1
		}
	}
	return len(data)
}

// stringEnd returns the index of the closing quote of a string.
func stringEnd(data []byte) int {
	for at := 1; at < len(data); at++ {
		switch data[at] {
		case '\\':
			at++
		case '"':
			return at
		}
	}
	return len(data)
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
	if len(quoted) > 1 && quoted[0] == '"' && bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // What is no string has no text.
	return text
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
