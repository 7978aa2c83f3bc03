package form

import (
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"slices"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// writer writes what would have to be entered to make a value.
type writer struct {
	form   *Form
	values url.Values
}

// Values is what would have to be entered to make an object. What the form has no
// field for is left out; a part that could not be said without loss, in a list, is
// entered as YAML.
func (f *Form) Values(object map[string]any) url.Values {
	w := &writer{form: f, values: url.Values{}}
	w.write(&f.root, place{required: true}, object)
	return w.values
}

// write reports whether the value could be said at all.
func (w *writer) write(s *spec.Schema, at place, value any) {
	shape := w.form.shape(s, at.depth, at.chain)
	if value == nil {
		if shape.schema.Nullable {
			w.values.Set(at.name+"~"+nullMark, "on")
		}
		return
	}
	switch v := value.(type) {
	case map[string]any:
		switch shape.kind {
		case Object:
			w.object(&shape, at, v)
			return
		case Map:
			w.pairs(&shape, at, v)
			return
		}
	case []any:
		if shape.kind == List {
			w.list(&shape, at, v)
			return
		}
	default:
		if shape.kind != Any && !shape.composed() {
			w.values.Set(at.name, printed(value, shape.kind))
			return
		}
	}
	w.values.Set(at.name, PrintYAML(value))
}

func (w *writer) object(shape *shape, at place, members map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if s, known := shape.schema.Properties[name]; known {
			w.write(&s, place{
				name: property(at.name, name), depth: at.depth + 1, chain: shape.chain,
				required: slices.Contains(shape.schema.Required, name),
			}, members[name])
		}
	}
	if len(members) == 0 && at.depth > 1 && (!at.required || at.row) {
		w.values.Set(at.name+"~"+setMark, "on")
	}
}

func (w *writer) list(shape *shape, at place, elements []any) {
	if len(elements) > MaxRows {
		w.values.Set(at.name, PrintYAML(elements))
		return
	}
	for i, element := range elements {
		below := place{name: row(at.name, i), depth: at.depth + 1, chain: shape.chain, row: true}
		w.values.Set(below.name+"~"+rowMark, "1")
		if !w.exactly(shape.schema.Items.Schema, below, element) {
			w.instead(at.name, elements)
			return
		}
	}
}

func (w *writer) pairs(shape *shape, at place, members map[string]any) {
	if len(members) > MaxRows {
		w.values.Set(at.name, PrintYAML(members))
		return
	}
	for i, key := range slices.Sorted(maps.Keys(members)) {
		below := place{name: row(at.name, i), depth: at.depth + 1, chain: shape.chain, row: true}
		w.values.Set(below.name+"~"+rowMark, "1")
		w.values.Set(below.name+"~"+keyMark, key)
		if key == "" || !w.exactly(shape.schema.AdditionalProperties.Schema, below, members[key]) && members[key] != "" {
			w.instead(at.name, members)
			return
		}
	}
}

// exactly writes the value of a row and reads it again. A list is sent as a whole, so
// nothing of it may be lost: what comes back as something else is entered as YAML.
func (w *writer) exactly(s *spec.Schema, at place, value any) bool {
	try := &writer{form: w.form, values: url.Values{}}
	try.write(s, at, value)
	if !try.returns(s, at, value) {
		shape := w.form.shape(s, at.depth, at.chain)
		if !shape.composed() {
			return false
		}
		try.values = url.Values{at.name: {PrintYAML(value)}}
	}
	maps.Copy(w.values, try.values)
	return true
}

// returns reads what was written at a place, and compares.
func (w *writer) returns(s *spec.Schema, at place, value any) bool {
	root, err := entered(w.values)
	if err != nil {
		return false
	}
	steps, _, err := split(at.name)
	if err != nil {
		return false
	}
	e := root
	for _, step := range steps {
		if e, err = e.below(step); err != nil {
			return false
		}
	}
	made := (&layout{form: w.form}).field(s, at, e).result()
	return made.sent && len(made.problems) == 0 && Equal(made.value, value)
}

// instead takes back what was written below a name, and enters the whole as YAML.
func (w *writer) instead(name string, value any) {
	maps.DeleteFunc(w.values, func(each string, _ []string) bool {
		return len(each) > len(name) && each[:len(name)] == name && each[len(name)] == '['
	})
	w.values.Set(name, PrintYAML(value))
}

// Equal compares JSON values, whatever types their numbers have.
func Equal(a, b any) bool { return reflect.DeepEqual(plain(a), plain(b)) }

// plain is a value with every number as its text.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		members := make(map[string]any, len(v))
		for name, member := range v {
			members[name] = plain(member)
		}
		return members
	case []any:
		elements := make([]any, 0, len(v))
		for _, element := range v {
			elements = append(elements, plain(element))
		}
		return elements
	case int, int64, float64:
		return json.Number(printed(v, Number))
	}
	return value
}
