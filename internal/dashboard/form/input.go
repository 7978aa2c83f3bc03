package form

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// newInput returns the input of a simple field.
func newInput(f *Field, s *spec.Schema) Input {
	in := Input{Widget: "text", Type: "text", Placeholder: f.Default}
	if len(s.Enum) > 0 {
		return newChoiceInput(f, s)
	}
	switch f.Type {
	case Boolean:
		// A checkbox has two states. An optional field needs a third one.
		switch {
		case f.Text != "" && f.Text != "true" && f.Text != "false":
			return in // Show invalid text as it is.
		case f.Required || f.Default != "":
			in.Widget = "check"
		default:
			in.Widget = "choice"
		}
	case Integer, Number:
		if f.Text != "" && !browserNumber.MatchString(f.Text) {
			return in // A browser would show and send nothing.
		}
		in.Type, in.Step = "number", "1"
		if f.Type == Number {
			in.Step = "any"
		}
		in.Min, in.Max = formatBound(s.Minimum, s.ExclusiveMinimum), formatBound(s.Maximum, s.ExclusiveMaximum)
	case IntOrString:
		in.Placeholder = cmp.Or(in.Placeholder, "number or text")
	default:
		in.setText(f, s)
	}
	return in
}

// browserNumber matches the numbers that browsers accept.
var browserNumber = regexp.MustCompile(`^-?(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?$`)

// newChoiceInput returns radio buttons for a few required values, and a select otherwise.
func newChoiceInput(f *Field, s *spec.Schema) Input {
	in := Input{Widget: "select"}
	if len(s.Enum) <= 3 && f.Required && f.Default == "" {
		in.Widget = "radio"
	}
	for _, value := range s.Enum {
		text := formatScalar(value, f.Type)
		in.Options = append(in.Options, Option{text, text == f.Text})
	}
	// Keep a value that the schema no longer allows.
	if f.Text != "" && !slices.Contains(in.Options, Option{f.Text, true}) {
		in.Options = append(in.Options, Option{f.Text, true})
	}
	return in
}

func (in *Input) setText(f *Field, s *spec.Schema) {
	switch s.Format {
	case "password":
		in.Type = "password"
	case "email":
		in.Type = "email"
	case "date":
		if _, err := time.Parse(time.DateOnly, f.Text); err == nil || f.Text == "" {
			in.Type = "date"
		}
	case "date-time":
		in.Type, in.Step = "text", ""
		in.Placeholder = cmp.Or(in.Placeholder, "2006-01-02T15:04:05Z")
		if local, is := toPickerTime(f.Text); is {
			in.Type, in.Step, f.Text = "datetime-local", "1", local
		}
		return
	case "duration":
		in.Placeholder = cmp.Or(in.Placeholder, "1h30m")
	case "byte":
		in.Placeholder = cmp.Or(in.Placeholder, "in base64")
	}
	if in.Type == "text" && isLong(f, s) || s.Format == "byte" {
		in.Widget, in.Type = "area", ""
	}
	if s.MinLength != nil && *s.MinLength > 0 {
		in.MinLength = strconv.FormatInt(*s.MinLength, 10)
	}
	if s.MaxLength != nil {
		in.MaxLength = strconv.FormatInt(*s.MaxLength, 10)
	}
	in.Pattern = browserPattern(s.Pattern)
}

// longText is the length from which a text has an input of several lines.
const longText = 80

// isLong reports whether a string has several lines, or is or may be long: the schema limits it to more than two lines.
func isLong(f *Field, s *spec.Schema) bool {
	mayBeLong := s.MaxLength != nil && *s.MaxLength > 2*longText && s.Format == "" && s.Pattern == ""
	return mayBeLong || strings.ContainsAny(f.Text, "\r\n") || len(cmp.Or(f.Text, f.Default)) > longText
}

// formatBound formats a minimum or maximum. HTML has no exclusive bounds.
func formatBound(limit *float64, exclusive bool) string {
	if limit == nil || exclusive {
		return ""
	}
	return strconv.FormatFloat(*limit, 'f', -1, 64)
}

// browserPattern converts a pattern for HTML, or returns "" if browsers may interpret it
// differently. Browsers compile patterns with the v flag, which is stricter.
func browserPattern(pattern string) string {
	hasFlags := strings.Contains(strings.ReplaceAll(pattern, "(?:", ""), "(?")
	if pattern == "" || len(pattern) > 200 || hasFlags || !portablePattern.MatchString(pattern) {
		return ""
	}
	translated := classPattern.ReplaceAllStringFunc(pattern, escapeClass)
	if strings.HasPrefix(pattern, "^") && strings.HasSuffix(pattern, "$") && !strings.Contains(pattern, "|") {
		return translated
	}
	return ".*(?:" + translated + ").*"
}

// A portable pattern consists of printable ASCII, escapes, classes without names, groups and
// repetitions.
const (
	portableEscape = `\\[.*+?^$()\[\]{}|/\\dws]`
	portableClass  = `\[\^?(?:` + portableEscape + `|\\-|[\x20-\x5a\x5e-\x7e])+\]`
)

var (
	portablePattern = regexp.MustCompile(`^(?:[\x20-\x27\x2a-\x5a\x5e-\x7a|~]|` + portableEscape + `|` + portableClass +
		`|\((?:\?:)?|\)|\{\d+(?:,\d*)?\})*$`)
	classPattern = regexp.MustCompile(portableEscape + `|` + portableClass)
	// classMember matches an escape, a range, or a character that the v flag requires to be
	// escaped.
	classMember = regexp.MustCompile("\\\\.|[^\\\\]-[^\\\\]|[(){}|/&!#%,:;<=>@`~-]")
)

// escapeClass escapes the members of a class where necessary; a single escape stays.
func escapeClass(class string) string {
	if class[0] == '\\' {
		return class
	}
	start := len(class) - len(strings.TrimLeft(class, "[^"))
	return class[:start] + classMember.ReplaceAllStringFunc(class[start:len(class)-1], func(member string) string {
		if len(member) > 1 {
			return member
		}
		return `\` + member
	}) + "]"
}
