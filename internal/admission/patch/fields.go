package patch

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// linearLimit is up to how many fields find searches without a map.
const linearLimit = 16

// fields are the members of a JSON object in their order; of duplicates, the last.
type fields struct {
	list []field
	// indexes is where in the list a name is; nil while there are few.
	indexes map[string]int
}

// field is a member. Its slices point into the object.
type field struct{ name, quoted, value []byte }

func fieldsOf(data []byte) (fields, error) {
	f := fields{list: make([]field, 0, linearLimit/2)}
	err := object.Members(data, func(quoted, value []byte) error {
		f.add(field{object.Unquoted(quoted), quoted, value})
		return nil
	})
	return f, err
}

func (f *fields) add(one field) {
	if at := f.find(one.name); at >= 0 {
		f.list[at] = one
		return
	}
	f.list = append(f.list, one)
	switch {
	case f.indexes != nil:
		f.indexes[string(one.name)] = len(f.list) - 1
	case len(f.list) > linearLimit:
		f.indexes = make(map[string]int, 2*len(f.list))
		for i := range f.list {
			f.indexes[string(f.list[i].name)] = i
		}
	}
}

// find returns the index of a name, or -1.
func (f *fields) find(name []byte) int {
	if f.indexes != nil {
		if at, there := f.indexes[string(name)]; there {
			return at
		}
		return -1
	}
	for i := range f.list {
		if bytes.Equal(f.list[i].name, name) {
			return i
		}
	}
	return -1
}

// of returns the value of a field of another object, or nil.
func (f *fields) of(name []byte) []byte {
	if at := f.find(name); at >= 0 {
		return f.list[at].value
	}
	return nil
}

func (f *fields) value(name string) []byte { return f.of([]byte(name)) }

func elementsOf(data []byte) ([][]byte, error) {
	var list [][]byte
	err := object.Elements(data, func(value []byte) error {
		list = append(list, value)
		return nil
	})
	return list, err
}

// kindOf is the first byte of a value, '0' for numbers, and 0 for no value.
func kindOf(value []byte) byte {
	value = bytes.TrimLeft(value, " \t\r\n")
	switch {
	case len(value) == 0:
		return 0
	case value[0] == '-' || '0' <= value[0] && value[0] <= '9':
		return '0'
	}
	return value[0]
}

func allOf(kind byte, values ...[]byte) bool {
	for _, value := range values {
		if kindOf(value) != kind {
			return false
		}
	}
	return true
}

// sameScalar compares two values by their meaning, and objects and lists by their bytes.
func sameScalar(a, b []byte) bool {
	switch {
	case bytes.Equal(a, b):
		return true
	case allOf('"', a, b):
		return bytes.Equal(object.Unquoted(a), object.Unquoted(b))
	case allOf('0', a, b):
		return sameNumber(string(a), string(b))
	}
	return false
}

// sameNumber distinguishes 1 and 1.0, which the API server decodes into different types.
func sameNumber(a, b string) bool {
	if !strings.ContainsAny(a, ".eE") || !strings.ContainsAny(b, ".eE") {
		return false
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}
