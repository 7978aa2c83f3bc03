package project

import (
	"errors"
	"fmt"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// node is a value in the file with its path. Errors name the path, and reading continues
// after an error to report all of them.
type node struct {
	path     string
	value    any
	problems *[]error
}

func (n node) errorf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if n.path != "" {
		err = fmt.Errorf("%s: %w", n.path, err)
	}
	*n.problems = append(*n.problems, err)
}

// object checks that the node is an object with known fields only.
func (n node) object(known ...string) node {
	fields, ok := n.value.(map[string]any)
	if !ok {
		n.errorf("must be an object, not %s", describe(n.value))
		return node{path: n.path, value: map[string]any{}, problems: n.problems}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			n.field(name).errorf("unknown field; known are %v", known)
		}
	}
	return n
}

// field returns a field of an object; its value is nil if it is missing.
func (n node) field(name string) node {
	path := name
	if n.path != "" {
		path = n.path + "." + name
	}
	fields, _ := n.value.(map[string]any)
	return node{path: path, value: fields[name], problems: n.problems}
}

func (n node) list() []node {
	if n.value == nil {
		return nil
	}
	items, ok := n.value.([]any)
	if !ok {
		n.errorf("must be a list, not %s", describe(n.value))
	}
	nodes := make([]node, len(items))
	for i, item := range items {
		nodes[i] = node{path: fmt.Sprintf("%s[%d]", n.path, i), value: item, problems: n.problems}
	}
	return nodes
}

// text returns a string, or "" if it is missing.
func (n node) text() string {
	if n.value == nil {
		return ""
	}
	return n.required()
}

// existing returns the absolute path of an existing file or folder.
func (n node) existing(dir string) string {
	name := n.required()
	path := within(dir, name)
	if _, err := os.Stat(path); name != "" && errors.Is(err, fs.ErrNotExist) {
		n.errorf("%s: no such file or folder", name)
	}
	return path
}

func (n node) required() string {
	switch value := n.value.(type) {
	case string:
		if value == "" {
			n.errorf("must not be empty")
		}
		return value
	case float64, int64, bool:
		n.errorf("must be a string, not %s; put it in quotes", describe(value))
	default:
		n.errorf("must be a string, not %s", describe(value))
	}
	return ""
}

func (n node) strings() []string {
	return lists.Map(n.list(), node.argument)
}

// argument returns a string that may be empty.
func (n node) argument() string {
	if n.value == "" {
		return ""
	}
	return n.required()
}

func (n node) textMap() map[string]string {
	if n.value == nil {
		return nil
	}
	fields, ok := n.value.(map[string]any)
	if !ok {
		n.errorf("must be an object, not %s", describe(n.value))
	}
	all := make(map[string]string, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		all[name] = n.field(name).argument()
	}
	return all
}

func describe(value any) string {
	switch value := value.(type) {
	case nil:
		return "nothing"
	case string:
		return fmt.Sprintf("the text %q", value)
	case bool:
		return fmt.Sprintf("the boolean %t", value)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return fmt.Sprintf("the number %v", value)
	}
}
