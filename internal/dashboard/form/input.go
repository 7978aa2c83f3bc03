package form

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// newInput says how a value without parts is entered.
func newInput(f *Field, s *spec.Schema) Input {
	in := Input{Widget: "text", Type: "text", Placeholder: f.Default}
	if len(s.Enum) > 0 {
		return newChoiceInput(f, s)
	}
	switch f.Type {
	case Boolean:
		// A box has two states. Where to leave the field out is a third, there are
		// three to choose from.
		switch {
		case f.Text != "" && f.Text != "true" && f.Text != "false":
			return in // What it is stays to be seen, and to be mended.
		case f.Required || f.Default != "":
			in.Widget = "check"
		default:
			in.Widget = "choice"
		}
	case Integer, Number:
		if f.Text != "" && !browserNumber.MatchString(f.Text) {
			return in // A browser would show nothing, and send nothing.
		}
		in.Type, in.Step = "number", "1"
		if f.Type == Number {
			in.Step = "any"
		}
		in.Min, in.Max = formatBound(s.Minimum, s.ExclusiveMinimum), formatBound(s.Maximum, s.ExclusiveMaximum)
	case IntOrString:
		in.Placeholder = firstText(in.Placeholder, "a number or a text")
	default:
		in.setText(f, s)
	}
	return in
}

// browserNumber is what a browser takes for a number; all else it throws away.
var browserNumber = regexp.MustCompile(`^-?(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?$`)

// newChoiceInput are radio buttons while there are few, and there is none to leave it open.
func newChoiceInput(f *Field, s *spec.Schema) Input {
	in := Input{Widget: "select"}
	if len(s.Enum) <= 3 && f.Required && f.Default == "" {
		in.Widget = "radio"
	}
	for _, value := range s.Enum {
		text := formatScalar(value, f.Type)
		in.Options = append(in.Options, Option{text, text == f.Text})
	}
	// What is there stays there, also where the schema does not have it any more.
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
		in.Placeholder = firstText(in.Placeholder, "2006-01-02T15:04:05Z")
		if local, is := toPickerTime(f.Text); is {
			in.Type, in.Step, f.Text = "datetime-local", "1", local
		}
		return
	case "duration":
		in.Placeholder = firstText(in.Placeholder, "1h30m")
	case "byte":
		in.Placeholder = firstText(in.Placeholder, "in base64")
	}
	if strings.ContainsAny(f.Text, "\r\n") && in.Type == "text" || s.Format == "byte" {
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

// formatBound is a minimum or maximum that a browser can hold; it knows no exclusive ones.
func formatBound(limit *float64, exclusive bool) string {
	if limit == nil || exclusive {
		return ""
	}
	return strconv.FormatFloat(*limit, 'f', -1, 64)
}

// browserPattern is a pattern that a browser surely understands as Go does, anchored
// as HTML anchors it; else nothing, and the API server judges alone. Browsers compile
// patterns with the flag v, which refuses much that others let pass.
func browserPattern(pattern string) string {
	translated, known := translatePattern(pattern)
	switch {
	case pattern == "" || len(pattern) > 200 || !known:
		return ""
	case strings.HasPrefix(pattern, "^") && strings.HasSuffix(pattern, "$") && !strings.Contains(pattern, "|"):
		return translated
	}
	return ".*(?:" + translated + ").*"
}

// translatePattern knows patterns of letters, classes, groups and counts. In classes it
// escapes what the flag v wants escaped.
func translatePattern(pattern string) (translated string, known bool) {
	var out strings.Builder
	inClass := false
	for i := 0; i < len(pattern); i++ {
		c, rest := pattern[i], pattern[i+1:]
		switch {
		case c < 0x20 || c > 0x7e:
			return "", false
		case c == '\\':
			if rest == "" || !isPortableEscape(rest[0], inClass) {
				return "", false
			}
			out.WriteByte(c)
			c, i = rest[0], i+1
		case inClass && c == '[', !inClass && (c == ']' || c == '}'):
			return "", false
		case inClass && c == ']', c == '[':
			inClass = c == '['
		case inClass:
			escapeInClass(&out, pattern, i)
		case c == '(' && strings.HasPrefix(rest, "?") && !strings.HasPrefix(rest, "?:"):
			return "", false
		case c == '{':
			if !isRepetition(pattern[i:]) {
				return "", false
			}
			end := strings.IndexByte(rest, '}')
			out.WriteString(pattern[i : i+1+end])
			i += 1 + end
			c = '}'
		}
		out.WriteByte(c)
	}
	return out.String(), !inClass
}

// isPortableEscape are those that mean the same everywhere.
func isPortableEscape(c byte, inClass bool) bool {
	return strings.IndexByte(`.*+?^$()[]{}|/\dws`, c) >= 0 || inClass && c == '-'
}

// escapeInClass writes the backslash that a character of a class needs, a dash unless
// it is there to make a range.
func escapeInClass(out *strings.Builder, pattern string, i int) {
	before, after := pattern[i-1], byte(']')
	if i+1 < len(pattern) {
		after = pattern[i+1]
	}
	isRange := pattern[i] == '-' && before != '[' && before != '^' && after != ']'
	if !isRange && strings.IndexByte("(){}|/-&!#%,:;<=>@`~", pattern[i]) >= 0 {
		out.WriteByte('\\')
	}
}

// isRepetition knows "{2}", "{2,}" and "{2,3}".
func isRepetition(text string) bool {
	inner, _, closed := strings.Cut(text[1:], "}")
	low, high, _ := strings.Cut(inner, ",")
	_, err := strconv.Atoi(low)
	return closed && err == nil && strings.Trim(high, "0123456789") == ""
}
