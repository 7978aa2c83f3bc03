package patch

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is an operation of a JSON patch. A removal has no value.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value *any   `json:"value,omitempty"`
}

// differ collects the operations from one document to another. Each applies to the result
// of the previous ones, so list indexes shift.
//
// It is no library's: the one that others use reads numbers as floats, which have not all integers.
type differ struct {
	path       []string
	operations []operation
}

// maxDepth is how deep differences are looked for. It takes longer the deeper it is.
const maxDepth = 64

func (d *differ) compare(from, to any) {
	switch from := from.(type) {
	case map[string]any:
		if to, is := to.(map[string]any); is && len(d.path) < maxDepth {
			d.compareObjects(from, to)
			return
		}
	case []any:
		if to, is := to.([]any); is && len(d.path) < maxDepth {
			d.compareLists(from, to)
			return
		}
	}
	if !reflect.DeepEqual(from, to) {
		d.add("replace", &to)
	}
}

func (d *differ) compareObjects(from, to map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, stays := to[name]; !stays {
			d.at(name, func() { d.add("remove", nil) })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(to)) {
		value := to[name]
		d.at(name, func() {
			if was, there := from[name]; there {
				d.compare(was, value)
			} else {
				d.add("add", &value)
			}
		})
	}
}

// compareLists skips the common start and end of two lists, and compares the elements
// between by index.
func (d *differ) compareLists(from, to []any) {
	head, tail, shorter := 0, 0, min(len(from), len(to))
	for head < shorter && reflect.DeepEqual(from[head], to[head]) {
		head++
	}
	for tail < shorter-head && reflect.DeepEqual(from[len(from)-1-tail], to[len(to)-1-tail]) {
		tail++
	}
	both := shorter - tail
	for i := head; i < both; i++ {
		d.at(strconv.Itoa(i), func() { d.compare(from[i], to[i]) })
	}
	for i := len(from) - tail - 1; i >= both; i-- {
		d.at(strconv.Itoa(i), func() { d.add("remove", nil) })
	}
	for i := both; i < len(to)-tail; i++ {
		d.at(strconv.Itoa(i), func() { d.add("add", &to[i]) })
	}
}

func (d *differ) at(name string, do func()) {
	d.path = append(d.path, strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	do()
	d.path = d.path[:len(d.path)-1]
}

func (d *differ) add(op string, value *any) {
	path := ""
	if len(d.path) > 0 {
		path = "/" + strings.Join(d.path, "/")
	}
	d.operations = append(d.operations, operation{op, path, value})
}
