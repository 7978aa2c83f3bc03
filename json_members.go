package setpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// member is one member of a JSON object, as text.
type member struct{ name, value []byte }

// members are those of a JSON object, in order. Only their ends are looked for: most
// are the same text as another object's, or are passed on as they are.
type members []member

var errNoObject = errors.New("it is no object")

// readMembers reads JSON that json.Marshal wrote: it is valid, without spaces, and no
// name comes twice.
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

// valueEnd is where the value ends with which data begin.
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

// stringEnd is where the closing quote of a string is.
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

// index is where the member of a name is, which needs no escapes; -1 for none.
func (m members) index(name string) int {
	return slices.IndexFunc(m, func(one member) bool { return isNamed(one.name, name) })
}

func isNamed(quoted []byte, name string) bool { return string(quoted[1:len(quoted)-1]) == name }

// named is the value of the member with a name as it stands in JSON; nil for none.
// Objects of one type have their members in the same order, and few of them.
func (m members) named(quoted []byte) []byte {
	for _, one := range m {
		if bytes.Equal(one.name, quoted) {
			return one.value
		}
	}
	return nil
}

// text is the value of a member; nil for none.
func (m members) text(name string) []byte {
	if at := m.index(name); at >= 0 {
		return m[at].value
	}
	return nil
}

// textOf is a JSON string as text; "" for what is none.
func textOf(quoted []byte) string {
	if len(quoted) > 1 && quoted[0] == '"' && bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // What is no string has no text.
	return text
}

// with are the members with one set.
func (m members) with(name string, value []byte) members {
	if at := m.index(name); at >= 0 {
		m[at].value = value
		return m
	}
	return append(m, member{[]byte(`"` + name + `"`), value})
}

// without are the members but some.
func (m members) without(names ...string) members {
	return slices.DeleteFunc(m, func(one member) bool {
		return slices.ContainsFunc(names, func(name string) bool { return isNamed(one.name, name) })
	})
}

// JSON is the object again.
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

// quoted is a string as JSON.
func quoted(text string) []byte {
	data, _ := json.Marshal(text) //nolint:errchkjson // There is no string that cannot be written.
	return data
}

// isNull says that a value is null.
func isNull(value []byte) bool { return bytes.Equal(value, []byte("null")) }
