package form

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// few is how many fields an object may have that shows all of them at once.
const few = 8

// layout makes fields, and counts them.
type layout struct {
	form   *Form
	fields int
	// values are at least those of the fields that are entered as YAML.
	values int
}

// place is where a field stands.
type place struct {
	name, label string
	depth       int
	chain       []string
	// required in what it is in, mandatory in any case; a row is neither, and may be
	// left empty.
	required, mandatory, row bool
}

// Read makes the fields of what was entered. What it refuses is wrong with the request
// as a whole; what wraps ErrTooLarge may be entered as YAML.
func (f *Form) Read(values url.Values) (*Field, error) {
	entries, err := entered(values)
	if err != nil {
		return nil, err
	}
	if unknown := f.strangers(&f.root, entries, place{}); unknown != "" {
		return nil, fmt.Errorf("the form has no field %q", cut(unknown, 100))
	}
	l := &layout{form: f}
	root := l.field(&f.root, place{required: true, mandatory: true}, entries)
	if l.fields > MaxFields {
		return nil, fmt.Errorf("more than %d fields: %w", MaxFields, ErrTooLarge)
	}
	if l.values > MaxValues {
		return nil, fmt.Errorf("more than %d values in fields that are entered as YAML: %w", MaxValues, ErrTooMuch)
	}
	return root, nil
}

// Blank is what is entered in a new form: a row where there has to be one.
func (f *Form) Blank() url.Values {
	values := url.Values{}
	root, err := f.Read(values)
	if err != nil {
		return values
	}
	root.Each(func(field *Field) {
		if field.Type == List && field.Mandatory && !field.YAML {
			values.Set(field.Next+"~"+rowMark, "1")
		}
	})
	return values
}

func (l *layout) field(s *spec.Schema, at place, e *entry) *Field {
	l.fields++
	shape := l.form.shape(s, at.depth, at.chain)
	f := &Field{
		Name: at.name, ID: identity(at.name), Path: strings.TrimPrefix(at.name, "."), Label: at.label,
		Help: beginning(shape.schema.Description), Type: shape.kind,
		Required: at.required, Mandatory: at.mandatory,
		Text: e.text(), Nullable: shape.schema.Nullable && !at.row,
		Default: printed(shape.schema.Default, shape.kind),
	}
	_, f.Null = e.marked(nullMark)
	f.Null = f.Null && f.Nullable
	switch {
	case l.fields > MaxFields:
	case shape.kind == Any || shape.composed() && e.said():
		f.YAML = true
		l.values += beginnings(f.Text)
	case shape.composed():
		l.parts(f, &shape, at, e)
	default:
		f.Input = inputOf(f, &shape.schema)
		if at.name == ".metadata.namespace" {
			f.Input.Suggestions = l.form.options.Namespaces
		}
		if f.Input.Widget == "check" && !e.said() {
			f.Text = f.untouched()
		}
	}
	return f
}

func (l *layout) parts(f *Field, shape *shape, at place, e *entry) {
	f.Default = ""
	switch shape.kind {
	case List:
		l.rows(f, shape.schema.Items.Schema, at, shape.chain, e)
	case Map:
		l.rows(f, shape.schema.AdditionalProperties.Schema, at, shape.chain, e)
		for i, n := range e.numbers() {
			l.key(f.Rows[i], e.rows[n])
		}
	default:
		f.Settable = (!at.required || at.row) && at.depth > 1 && len(shape.schema.Required) == 0
		_, f.Set = e.marked(setMark)
		f.Set = f.Set && f.Settable
		l.properties(f, shape, at, e)
	}
}

func (l *layout) rows(f *Field, of *spec.Schema, at place, chain []string, e *entry) {
	next := 0
	for _, n := range e.numbers() {
		below := place{
			name: row(at.name, n), label: strings.TrimSpace(at.label + " " + strconv.Itoa(len(f.Rows)+1)),
			depth: at.depth + 1, chain: chain, row: true,
		}
		f.Rows = append(f.Rows, l.field(of, below, e.rows[n]))
		next = n + 1
	}
	f.Next = row(at.name, next)
}

func (l *layout) key(f *Field, e *entry) {
	text, _ := e.marked(keyMark)
	name := f.Name + "~" + keyMark
	f.Key = &Field{
		Name: name, ID: identity(name), Path: f.Path, Label: "key", Type: String, Text: text,
		Input: Input{Widget: "text", Type: "text", Placeholder: "key"},
	}
}

func (l *layout) properties(f *Field, shape *shape, at place, e *entry) {
	required := slices.Clone(shape.schema.Required)
	var all []*Field
	for _, name := range slices.Sorted(maps.Keys(shape.schema.Properties)) {
		s := shape.schema.Properties[name]
		is := slices.Contains(required, name)
		all = append(all, l.field(&s, place{
			name: property(at.name, name), label: name, depth: at.depth + 1, chain: shape.chain,
			required: is, mandatory: is && at.mandatory,
		}, e.at(name)))
	}
	many := len(all) > few
	slices.SortStableFunc(all, func(a, b *Field) int { return cmp.Compare(rank(a, at, many), rank(b, at, many)) })
	first := len(all)
	if many || at.name == ".metadata" {
		isLate := func(f *Field) bool { return !f.Required && !f.Touched() }
		if late := slices.IndexFunc(all, isLate); late >= 0 {
			first = late
		}
	}
	// A few simple ones are no burden.
	for first < min(few-2, len(all)) && all[first].Input.Widget != "" {
		first++
	}
	if first == 0 {
		// A part without anything to begin with begins with its simple fields.
		first = min(few/2, len(all))
	}
	f.Fields, f.More = all[:first], all[first:]
}

// rank puts those first that have to be entered, or were where there are many, and
// simple ones before those that have parts. At the top it is metadata, spec, and what
// else there is.
func rank(f *Field, at place, many bool) int {
	switch {
	case at.depth == 0 && f.Label == "metadata":
		return 0
	case at.depth == 0 && f.Label == "spec":
		return 1
	case at.name == ".metadata" && f.Label == "name":
		return 1
	}
	rank := 2
	if !f.Required {
		rank += 2
	}
	if !f.Required && many && !f.Touched() {
		rank += 2
	}
	if f.Input.Widget == "" {
		rank++
	}
	return rank
}

// strangers finds something entered that the form has no field for.
func (f *Form) strangers(s *spec.Schema, e *entry, at place) string {
	if e.empty() {
		return ""
	}
	shape := f.shape(s, at.depth, at.chain)
	for name, below := range e.properties {
		of, known := shape.schema.Properties[name]
		if !known || shape.kind != Object {
			return property(at.name, name)
		}
		next := place{name: property(at.name, name), depth: at.depth + 1, chain: shape.chain}
		if found := f.strangers(&of, below, next); found != "" {
			return found
		}
	}
	for n, below := range e.rows {
		next := place{name: row(at.name, n), depth: at.depth + 1, chain: shape.chain}
		of := rowsOf(&shape)
		if of == nil {
			return next.name
		}
		if found := f.strangers(of, below, next); found != "" {
			return found
		}
	}
	return ""
}

func rowsOf(s *shape) *spec.Schema {
	switch s.kind {
	case List:
		return s.schema.Items.Schema
	case Map:
		return s.schema.AdditionalProperties.Schema
	}
	return nil
}

// beginning is the first paragraph of a description, or as much of it as is read.
func beginning(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	const most = 240
	if len(text) <= most {
		return text
	}
	if end := strings.LastIndex(text[:most], ". "); end > most/3 {
		return text[:end+1]
	}
	return strings.ToValidUTF8(text[:strings.LastIndex(text[:most]+" ", " ")], "") + " …"
}
