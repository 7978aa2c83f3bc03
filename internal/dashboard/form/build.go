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

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// maxVisibleFields is up to how many fields an object shows all of them, firstFields how many at least.
const (
	maxVisibleFields = 8
	firstFields      = 6
)

// fieldBuilder builds fields and counts them.
type fieldBuilder struct {
	form  *Form
	input *input
	// used are the names of the fields.
	used map[string]bool
	// yamlValues is an upper bound of the values in YAML fields.
	yamlValues int
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

// Read builds the fields of an input. Errors are about the whole request; input that wraps
// ErrFormTooLarge can be edited as YAML.
func (f *Form) Read(values url.Values) (*Field, error) {
	in, err := parseInput(values)
	if err != nil {
		return nil, err
	}
	l := &fieldBuilder{form: f, input: in, used: map[string]bool{}}
	root := l.field(&f.root, fieldContext{required: true, mandatory: true})
	if len(l.used) > MaxFields {
		return nil, fmt.Errorf("more than %d fields: %w", MaxFields, ErrFormTooLarge)
	}
	if l.yamlValues > MaxValues {
		return nil, fmt.Errorf("more than %d values in fields that are entered as YAML: %w", MaxValues, ErrInputTooLarge)
	}
	for name := range in.values {
		field := name
		for _, mark := range []string{rowMark, keyMark, setMark} {
			field = strings.TrimSuffix(field, mark)
		}
		if !l.used[field] {
			return nil, fmt.Errorf("unknown field %q", failure.Truncate(name, 100))
		}
	}
	return root, nil
}

func (l *fieldBuilder) field(s *spec.Schema, at fieldContext) *Field {
	l.used[at.name] = true
	resolved := l.form.resolve(s, at.depth, at.refs)
	f := &Field{
		Name: at.name, ID: elementID(at.name), Path: strings.TrimPrefix(at.name, "."), Label: at.label,
		Help: firstParagraph(resolved.schema.Description), Type: resolved.kind,
		Required: at.required, Mandatory: at.mandatory,
		Text: l.input.values.Get(at.name), Default: formatScalar(resolved.schema.Default, resolved.kind),
	}
	switch {
	case len(l.used) > MaxFields:
	case resolved.kind == Any || resolved.hasParts() && l.input.values.Has(at.name):
		f.YAML = true
		l.yamlValues += countValues(f.Text)
	case resolved.kind == List || resolved.kind == Map:
		f.Default = ""
		l.rows(f, &resolved, at)
	case resolved.hasParts():
		f.Default = ""
		f.CanBeEmpty = (!at.required || at.row) && at.depth > 1 && len(resolved.schema.Required) == 0
		f.SendEmpty = f.CanBeEmpty && l.input.values.Has(at.name+setMark)
		l.properties(f, &resolved, at)
	default:
		f.Input = newInput(f, &resolved.schema)
		if at.name == ".metadata.namespace" {
			f.Input.Suggestions = l.form.options.Namespaces
		}
	}
	return f
}

func (l *fieldBuilder) rows(f *Field, resolved *resolvedSchema, at fieldContext) {
	next := 0
	for _, n := range l.input.rows[at.name] {
		row := l.field(resolved.rowSchema(), fieldContext{
			name: rowName(at.name, n), label: strings.TrimSpace(at.label + " " + strconv.Itoa(len(f.Rows)+1)),
			depth: at.depth + 1, refs: resolved.refs, row: true,
		})
		if resolved.kind == Map {
			name := row.Name + keyMark
			row.Key = &Field{
				Name: name, ID: elementID(name), Path: row.Path, Label: "key", Type: String, Text: l.input.values.Get(name),
				Input: Input{Widget: "text", Type: "text", Placeholder: "key"},
			}
		}
		f.Rows = append(f.Rows, row)
		next = n + 1
	}
	f.Next = rowName(at.name, next)
}

func (l *fieldBuilder) properties(f *Field, resolved *resolvedSchema, at fieldContext) {
	var all []*Field
	for _, name := range slices.Sorted(maps.Keys(resolved.schema.Properties)) {
		s, required := resolved.schema.Properties[name], slices.Contains(resolved.schema.Required, name)
		all = append(all, l.field(&s, fieldContext{
			name: propertyName(at.name, name), label: name, depth: at.depth + 1, refs: resolved.refs,
			required: required, mandatory: required && at.mandatory,
		}))
	}
	slices.SortStableFunc(all, func(a, b *Field) int { return cmp.Compare(fieldRank(a), fieldRank(b)) })
	first := len(all)
	if first > maxVisibleFields || at.name == ".metadata" {
		if first = slices.IndexFunc(all, func(f *Field) bool { return !f.Required && !f.Touched() }); first < 0 {
			first = len(all)
		}
	}
	// Always show a few simple fields.
	for first < min(firstFields, len(all)) && (first == 0 || all[first].Input.Widget != "") {
		first++
	}
	f.Fields, f.More = all[:first], all[first:]
}

// fieldRank sorts fields: metadata and spec come first, then required ones, those with input, and
// simple ones before composed ones.
func fieldRank(f *Field) int {
	if at := slices.Index([]string{".metadata", ".spec", ".metadata.name"}, f.Name); at >= 0 {
		return at
	}
	rank := 3
	if f.Input.Widget == "" {
		rank++
	}
	switch {
	case f.Required:
		return rank
	case f.Touched():
		return rank + 2
	}
	return rank + 4
}

func firstParagraph(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	return failure.Truncate(strings.Join(strings.Fields(text), " "), 240)
}
