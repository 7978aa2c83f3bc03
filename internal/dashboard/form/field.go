package form

import (
	"slices"
	"strconv"
	"strings"
)

// Field is a field with its input, or a composed field.
type Field struct {
	// Name is the name of the input, ID the ID of its element, Path the field path:
	// ".spec.size", "f-spec-size" and "spec.size".
	Name, ID, Path string
	// Label is the property name, or the row number.
	Label string
	// Help is the start of the description.
	Help string
	Type Type
	// YAML reports that the field is edited as YAML, since a form cannot show it.
	YAML bool
	// Required fields are required in their parent, Mandatory ones in the whole object.
	Required, Mandatory bool
	// Text is the input.
	Text string
	// Default is the default of the API server.
	Default string
	// Input describes the element of a simple field.
	Input Input
	// CanBeEmpty objects may be sent without fields, and are if SendEmpty is set.
	CanBeEmpty, SendEmpty bool
	// Fields are shown first, More are optional.
	Fields, More []*Field
	// Rows are the items of a list or map.
	Rows []*Field
	// Key is the key of a map row.
	Key *Field
	// Next is the name of the next row.
	Next string
	// Problems are messages about the field.
	Problems []string

	// at is the index in the resulting list; -1 if the row was left out.
	at int
}

// Input describes an HTML input.
type Input struct {
	// Widget is "text", "area" or "select"; empty for composed fields.
	Widget string
	// Type is the type of an <input>.
	Type string
	// HTML attributes; empty for none.
	Min, Max, Step, Placeholder string
	// Options are the allowed values, Suggestions are examples.
	Options     []Option
	Suggestions []string
}

// Option is an allowed value.
type Option struct {
	Text     string
	Selected bool
}

// Open reports whether to expand the field.
func (f *Field) Open() bool {
	return f.Required || len(f.Rows) > 0 || f.Touched() || f.HasProblems()
}

// Touched reports whether the field has input.
func (f *Field) Touched() bool {
	return f.Text != "" || f.SendEmpty || f.Key != nil && f.Key.Text != "" || anyPart(f, (*Field).Touched)
}

// HasProblems reports whether the field or a part of it has problems.
func (f *Field) HasProblems() bool {
	return len(f.Problems) > 0 || f.Key != nil && f.Key.HasProblems() || anyPart(f, (*Field).HasProblems)
}

// MoreHasProblems reports whether one of the optional fields has problems.
func (f *Field) MoreHasProblems() bool { return slices.ContainsFunc(f.More, (*Field).HasProblems) }

// HasParts reports whether the field is composed.
func (f *Field) HasParts() bool { return !f.YAML && f.Input.Widget == "" }

// HasHelp reports whether the field has a help text.
func (f *Field) HasHelp() bool { return f.Help != "" || f.Default != "" }

func anyPart(f *Field, is func(*Field) bool) bool {
	return slices.ContainsFunc([][]*Field{f.Fields, f.More, f.Rows}, func(parts []*Field) bool { return slices.ContainsFunc(parts, is) })
}

// Walk calls visit for a field and all of its parts.
func (f *Field) Walk(visit func(*Field)) {
	if f.Key != nil {
		visit(f.Key)
	}
	visit(f)
	for _, parts := range [][]*Field{f.Fields, f.More, f.Rows} {
		for _, part := range parts {
			part.Walk(visit)
		}
	}
}

// AddProblems adds problems to their fields or the nearest part, and returns the rest.
func (f *Field) AddProblems(problems []Problem) (rest []Problem) {
	for _, p := range problems {
		at, behind := p.at, ""
		if at == nil {
			at, behind = f.find(strings.TrimPrefix(p.Field, "."))
		}
		if at == nil || at == f {
			rest = append(rest, p)
			continue
		}
		message := p.Message
		if behind != "" && at.HasParts() {
			message = strings.TrimPrefix(behind, ".") + ": " + message
		}
		if !slices.Contains(at.Problems, message) {
			at.Problems = append(at.Problems, message)
		}
	}
	return rest
}

// find follows a path as far as it leads, and returns the rest of the path.
func (f *Field) find(path string) (found *Field, rest string) {
	if path == "" {
		return f, ""
	}
	below, rest := f.next(path)
	if below == nil {
		return f, path
	}
	return below.find(strings.TrimPrefix(rest, "."))
}

// next returns the part at the start of a path. Names may contain dots, so the longest match wins.
func (f *Field) next(path string) (found *Field, rest string) {
	longest := -1
	try := func(part *Field, text string) {
		after, fits := strings.CutPrefix(path, text)
		if fits && text != "" && len(text) > longest && (after == "" || after[0] == '.' || after[0] == '[' || text[0] == '[') {
			found, rest, longest = part, after, len(text)
		}
	}
	for _, part := range slices.Concat(f.Fields, f.More) {
		try(part, part.Label)
		try(part, "["+part.Label+"]")
	}
	for _, part := range f.Rows {
		switch {
		case part.Key != nil && part.Key.Text != "":
			try(part, part.Key.Text)
			try(part, "["+part.Key.Text+"]")
		case part.Key == nil && part.at >= 0:
			try(part, "["+strconv.Itoa(part.at)+"]")
		}
	}
	return found, rest
}
