package form

import (
	"slices"
	"strings"
)

// Field is a field with what was entered into it, or a part of a form with the fields
// of it.
type Field struct {
	// Name is that of the input, ID that of its element, Path what users know it by:
	// ".spec.size", "f-spec-size" and "spec.size".
	Name, ID, Path string
	// Label is the property's name; that of a row ends in its number.
	Label string
	// Help is the beginning of the description.
	Help string
	Type Type
	// YAML says that it is entered as YAML: because no form is made for it, or because
	// the form cannot say what is there.
	YAML bool
	// Required fields have to be there if what they are in is. Mandatory ones have to be
	// there in any case.
	Required, Mandatory bool
	// Text is what was entered; for a Boolean "true", "false", or nothing.
	Text string
	// Default is what the API server sets if nothing is entered.
	Default string
	// Input is about the element of a field without parts.
	Input Input
	// Nullable fields may be Null.
	Nullable, Null bool
	// CanBeEmpty objects may be there without anything in them, and are if Set.
	CanBeEmpty, SendEmpty bool
	// Fields are those of an object that come first, More those that most users leave.
	Fields, More []*Field
	// Rows are those of a list or a map.
	Rows []*Field
	// Key is that of a row of a map.
	Key *Field
	// Next is the name of the row that would be added.
	Next string
	// Problems are what is wrong with it, for people.
	Problems []string
	// Focus says that typing goes on here.
	Focus bool

	// at is where a row went in the list that was made; -1 if it was left out.
	at int
}

// Input is what a browser has to know.
type Input struct {
	// Widget is "text", "area", "check", "choice" (yes, no or nothing), "select" or
	// "radio"; empty for what has parts.
	Widget string
	// Type is that of an <input>.
	Type string
	// Min, Max and Step, MinLength, MaxLength and Pattern are as HTML has them; empty
	// if there is no such bound.
	Min, Max, Step, MinLength, MaxLength, Pattern string
	Placeholder                                   string
	// Options are what there is to choose from, Suggestions what is worth offering.
	Options     []Option
	Suggestions []string
}

// Option is one of several values.
type Option struct {
	Text     string
	Selected bool
}

// Open says that a part is worth unfolding: something was entered, has to be, or is
// wrong.
func (f *Field) Open() bool {
	return f.Required || len(f.Rows) > 0 || f.Touched() || f.HasProblems()
}

// Touched says that somebody entered something.
func (f *Field) Touched() bool {
	if f.Null || f.SendEmpty || f.Key != nil && f.Key.Text != "" {
		return true
	}
	switch {
	case f.YAML || f.Input.Widget != "" && f.Type != Boolean:
		return f.Text != ""
	case f.Type == Boolean:
		return f.Text != f.defaultText()
	}
	return anyPart(f, (*Field).Touched)
}

// defaultText is what a Boolean says by itself: a box that is not checked says false.
func (f *Field) defaultText() string {
	switch {
	case f.Input.Widget != "check":
		return ""
	case f.Default != "":
		return f.Default
	}
	return "false"
}

// HasProblems says that there are problems with it, or with a part of it.
func (f *Field) HasProblems() bool {
	return len(f.Problems) > 0 || f.Key != nil && f.Key.HasProblems() || anyPart(f, (*Field).HasProblems)
}

// MoreHasProblems says that one of the fields that come later is worth a look.
func (f *Field) MoreHasProblems() bool { return slices.ContainsFunc(f.More, (*Field).HasProblems) }

// HasParts says that it has parts, and no input of its own.
func (f *Field) HasParts() bool { return !f.YAML && f.Input.Widget == "" }

// HasHelp says that there is a text about it beside it.
func (f *Field) HasHelp() bool { return f.Help != "" || f.Default != "" }

// anyPart asks the parts of a field.
func anyPart(f *Field, is func(*Field) bool) bool {
	for _, parts := range [][]*Field{f.Fields, f.More, f.Rows} {
		if slices.ContainsFunc(parts, is) {
			return true
		}
	}
	return false
}

// Walk calls for a field and all of its parts.
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

// FocusOn has typing go on in the first input at or below a name.
func (f *Field) FocusOn(name string) {
	var found *Field
	f.Walk(func(each *Field) {
		if found == nil && name != "" && strings.HasPrefix(each.Name, name) && (each.Input.Widget != "" || each.YAML) {
			found = each
		}
	})
	if found != nil {
		found.Focus = true
	}
}
