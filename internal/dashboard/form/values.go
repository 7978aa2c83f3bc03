package form

import (
	"maps"
	"net/url"
	"reflect"
	"slices"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// valueWriter writes the input of a value.
type valueWriter struct {
	form   *Form
	values url.Values
}

// Values returns the input of an object. Fields outside the schema are left out. List items
// that the form cannot express exactly are YAML.
func (f *Form) Values(object map[string]any) url.Values {
	w := &valueWriter{form: f, values: url.Values{}}
	w.write(&f.root, fieldContext{required: true}, object)
	return w.values
}

// write writes a value; values that do not fit the schema are YAML.
func (w *valueWriter) write(s *spec.Schema, at fieldContext, value any) {
	resolved := w.form.resolve(s, at.depth, at.refs)
	if value == nil {
		if resolved.schema.Nullable {
			w.values.Set(at.name+"~"+nullMark, "on")
		}
		return
	}
	switch v := value.(type) {
	case map[string]any:
		switch resolved.kind {
		case Object:
			w.object(&resolved, at, v)
			return
		case Map:
			w.mapPairs(&resolved, at, v)
			return
		}
	case []any:
		if resolved.kind == List {
			w.list(&resolved, at, v)
			return
		}
	default:
		if resolved.kind != Any && !resolved.hasParts() {
			w.values.Set(at.name, formatScalar(value, resolved.kind))
			return
		}
	}
	w.values.Set(at.name, FormatYAML(value))
}

func (w *valueWriter) object(resolved *resolvedSchema, at fieldContext, members map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if s, known := resolved.schema.Properties[name]; known {
			w.write(&s, at.property(name, resolved), members[name])
		}
	}
	if len(members) == 0 && at.depth > 1 && (!at.required || at.row) {
		w.values.Set(at.name+"~"+setMark, "on")
	}
}

func (w *valueWriter) list(resolved *resolvedSchema, at fieldContext, elements []any) {
	if len(elements) > MaxRows {
		w.values.Set(at.name, FormatYAML(elements))
		return
	}
	for i, element := range elements {
		below := at.rowAt(i, resolved)
		w.values.Set(below.name+"~"+rowMark, "1")
		if !w.writeExactly(resolved.rowSchema(), below, element) {
			w.replaceWithYAML(at.name, elements)
			return
		}
	}
}

func (w *valueWriter) mapPairs(resolved *resolvedSchema, at fieldContext, members map[string]any) {
	if len(members) > MaxRows {
		w.values.Set(at.name, FormatYAML(members))
		return
	}
	for i, key := range slices.Sorted(maps.Keys(members)) {
		below := at.rowAt(i, resolved)
		w.values.Set(below.name+"~"+rowMark, "1")
		w.values.Set(below.name+"~"+keyMark, key)
		if key == "" || !w.writeExactly(resolved.rowSchema(), below, members[key]) && members[key] != "" {
			w.replaceWithYAML(at.name, members)
			return
		}
	}
}

// writeExactly writes the value of a row and verifies it. A list is sent as a whole, so items
// that do not round-trip are YAML.
func (w *valueWriter) writeExactly(s *spec.Schema, at fieldContext, value any) bool {
	try := &valueWriter{form: w.form, values: url.Values{}}
	try.write(s, at, value)
	if !try.roundTrips(s, at, value) {
		resolved := w.form.resolve(s, at.depth, at.refs)
		if !resolved.hasParts() {
			return false
		}
		try.values = url.Values{at.name: {FormatYAML(value)}}
	}
	maps.Copy(w.values, try.values)
	return true
}

// roundTrips reports whether the written input yields the value again.
func (w *valueWriter) roundTrips(s *spec.Schema, at fieldContext, value any) bool {
	root, err := parseInput(w.values)
	if err != nil {
		return false
	}
	steps, _, err := split(at.name)
	if err != nil {
		return false
	}
	e := root
	for _, step := range steps {
		if e, err = e.childAt(step); err != nil {
			return false
		}
	}
	made := (&fieldBuilder{form: w.form}).field(s, at, e).result()
	return made.sent && len(made.problems) == 0 && reflect.DeepEqual(made.value, value)
}

// replaceWithYAML replaces the input below a name with YAML.
func (w *valueWriter) replaceWithYAML(name string, value any) {
	maps.DeleteFunc(w.values, func(each string, _ []string) bool {
		return len(each) > len(name) && each[:len(name)] == name && each[len(name)] == '['
	})
	w.values.Set(name, FormatYAML(value))
}
