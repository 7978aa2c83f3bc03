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

// maxVisibleFields is up to how many fields an object shows all of them.
const maxVisibleFields = 8

// fieldBuilder builds fields and counts them.
type fieldBuilder struct {
	form   *Form
	fields int
	// yamlValues is an upper bound of the values in YAML fields.
	yamlValues int
	// unknown is the name of an input without a field.
	unknown string
}

// fieldContext is the position of a field.
type fieldContext struct {
	name, label string
	depth       int
	refs        []string
	// A required field is required in its parent, a mandatory one in the whole object. A row is
	// neither, and may be empty.
	required, mandatory, row bool
}

// property returns the position of a property of an object.
func (at *fieldContext) property(name string, of *resolvedSchema) fieldContext {
	required := slices.Contains(of.schema.Required, name)
	return fieldContext{
		name: propertyName(at.name, name), label: name, depth: at.depth + 1, refs: of.refs,
		required: required, mandatory: required && at.mandatory,
	}
}

// rowAt returns the position of a row of a list or map.
func (at *fieldContext) rowAt(number int, of *resolvedSchema) fieldContext {
	return fieldContext{name: rowName(at.name, number), depth: at.depth + 1, refs: of.refs, row: true}
}

// Read builds the fields of an input. Errors are about the whole request; input that wraps
// ErrFormTooLarge can be edited as YAML.
func (f *Form) Read(values url.Values) (*Field, error) {
	entries, err := parseInput(values)
	if err != nil {
		return nil, err
	}
	l := &fieldBuilder{form: f}
	root := l.field(&f.root, fieldContext{required: true, mandatory: true}, entries)
	if l.unknown != "" {
		return nil, fmt.Errorf("unknown field %q", truncate(l.unknown, 100))
	}
	if l.fields > MaxFields {
		return nil, fmt.Errorf("more than %d fields: %w", MaxFields, ErrFormTooLarge)
	}
	if l.yamlValues > MaxValues {
		return nil, fmt.Errorf("more than %d values in fields that are entered as YAML: %w", MaxValues, ErrInputTooLarge)
	}
	return root, nil
}

// Blank returns the input of a new form, with a row in each mandatory list.
func (f *Form) Blank() url.Values {
	values := url.Values{}
	root, err := f.Read(values)
	if err != nil {
		return values
	}
	root.Walk(func(field *Field) {
		if field.Type == List && field.Mandatory && !field.YAML {
			values.Set(field.Next+"~"+rowMark, "1")
		}
	})
	return values
}

func (l *fieldBuilder) field(s *spec.Schema, at fieldContext, e *inputNode) *Field {
	l.fields++
	resolved := l.form.resolve(s, at.depth, at.refs)
	l.checkParts(&resolved, at, e)
	f := &Field{
		Name: at.name, ID: elementID(at.name), Path: strings.TrimPrefix(at.name, "."), Label: at.label,
		Help: firstParagraph(resolved.schema.Description), Type: resolved.kind,
		Required: at.required, Mandatory: at.mandatory,
		Text: e.text(), Nullable: resolved.schema.Nullable && !at.row,
		Default: formatScalar(resolved.schema.Default, resolved.kind),
	}
	f.Null = f.Nullable && e.hasMark(nullMark)
	switch {
	case l.fields > MaxFields:
	case resolved.kind == Any || resolved.hasParts() && e.hasText():
		f.YAML = true
		l.yamlValues += countValues(f.Text)
	case resolved.hasParts():
		l.parts(f, &resolved, at, e)
	default:
		f.Input = newInput(f, &resolved.schema)
		if at.name == ".metadata.namespace" {
			f.Input.Suggestions = l.form.options.Namespaces
		}
		if f.Input.Widget == "check" && !e.hasText() {
			f.Text = f.defaultText()
		}
	}
	return f
}

func (l *fieldBuilder) parts(f *Field, resolved *resolvedSchema, at fieldContext, e *inputNode) {
	f.Default = ""
	switch resolved.kind {
	case List, Map:
		l.rows(f, resolved, at, e)
	default:
		f.CanBeEmpty = (!at.required || at.row) && at.depth > 1 && len(resolved.schema.Required) == 0
		f.SendEmpty = f.CanBeEmpty && e.hasMark(setMark)
		l.properties(f, resolved, at, e)
	}
}

func (l *fieldBuilder) rows(f *Field, resolved *resolvedSchema, at fieldContext, e *inputNode) {
	next := 0
	for _, n := range e.rowNumbers() {
		below, input := at.rowAt(n, resolved), e.child(step{row: n, isRow: true})
		below.label = strings.TrimSpace(at.label + " " + strconv.Itoa(len(f.Rows)+1))
		row := l.field(resolved.rowSchema(), below, input)
		if resolved.kind == Map {
			l.key(row, input)
		}
		f.Rows = append(f.Rows, row)
		next = n + 1
	}
	f.Next = rowName(at.name, next)
}

func (l *fieldBuilder) key(f *Field, e *inputNode) {
	name := f.Name + "~" + keyMark
	f.Key = &Field{
		Name: name, ID: elementID(name), Path: f.Path, Label: "key", Type: String, Text: e.child(step{mark: keyMark}).text(),
		Input: Input{Widget: "text", Type: "text", Placeholder: "key"},
	}
}

func (l *fieldBuilder) properties(f *Field, resolved *resolvedSchema, at fieldContext, e *inputNode) {
	var all []*Field
	for _, name := range slices.Sorted(maps.Keys(resolved.schema.Properties)) {
		s := resolved.schema.Properties[name]
		all = append(all, l.field(&s, at.property(name, resolved), e.child(step{property: name})))
	}
	many := len(all) > maxVisibleFields
	slices.SortStableFunc(all, func(a, b *Field) int { return cmp.Compare(fieldRank(a, at, many), fieldRank(b, at, many)) })
	first := len(all)
	if many || at.name == ".metadata" {
		isLate := func(f *Field) bool { return !f.Required && !f.Touched() }
		if late := slices.IndexFunc(all, isLate); late >= 0 {
			first = late
		}
	}
	// Always show a few simple fields.
	for first < min(maxVisibleFields-2, len(all)) && all[first].Input.Widget != "" {
		first++
	}
	if first == 0 {
		// A part without required fields shows its first fields.
		first = min(maxVisibleFields/2, len(all))
	}
	f.Fields, f.More = all[:first], all[first:]
}

// fieldRank sorts fields: required ones first, then those with input if there are many, simple
// ones before composed ones. At the top, metadata and spec come first.
func fieldRank(f *Field, at fieldContext, many bool) int {
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

// checkParts notes input below a field that has no such part.
func (l *fieldBuilder) checkParts(resolved *resolvedSchema, at fieldContext, e *inputNode) {
	if e == nil {
		return
	}
	for part := range e.parts {
		_, known := resolved.schema.Properties[part.property]
		switch {
		case part.isRow && resolved.rowSchema() == nil:
			l.unknown = rowName(at.name, part.row)
		case !part.isRow && part.mark == "" && (!known || resolved.kind != Object):
			l.unknown = propertyName(at.name, part.property)
		}
	}
}

// firstParagraph returns the first paragraph of a description, truncated.
func firstParagraph(text string) string {
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
