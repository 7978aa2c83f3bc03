package apply

import (
	"encoding/json"
	"fmt"
	"strings"
)

// pathElement is a path element in managed fields that refers to an item of a list.
type pathElement struct {
	text string
	// keys are those of an object, and value is a value in a set.
	keys  map[string]any
	value any
	below fieldSet
}

// newPathElement parses a path element. One that does not refer to an item matches none.
func newPathElement(text string, below fieldSet) pathElement {
	e := pathElement{text: text, below: below}
	kind, encoded, _ := strings.Cut(text, ":")
	var value any
	switch _ = json.Unmarshal([]byte(encoded), &value); kind {
	case "v":
		e.value = value
	case "k":
		e.keys, _ = value.(map[string]any)
	}
	return e
}

// elements returns the path elements below a field, except for the field itself.
func (o fieldSet) elements() []pathElement {
	all := make([]pathElement, 0, len(o))
	for text, below := range o {
		if text != self {
			all = append(all, newPathElement(text, below))
		}
	}
	return all
}

func (e pathElement) matches(item any) bool {
	members, isObject := item.(map[string]any)
	if e.keys == nil || !isObject {
		return e.value != nil && fmt.Sprint(e.value) == fmt.Sprint(item)
	}
	for key, value := range e.keys {
		if !matchesKey(key, value, members) {
			return false
		}
	}
	return true
}

// matchesKey treats a port without a protocol as TCP, as the API does. Other parts of a key may be
// absent.
func matchesKey(key string, value any, members map[string]any) bool {
	has, given := members[key]
	if !given && key == "protocol" {
		has, given = "TCP", true
	}
	return !given || fmt.Sprint(has) == fmt.Sprint(value)
}
