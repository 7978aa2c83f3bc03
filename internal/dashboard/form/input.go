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
	translated, known := translatePattern(pattern)
	switch {
	case pattern == "" || len(pattern) > 200 || !known:
		return ""
	case strings.HasPrefix(pattern, "^") && strings.HasSuffix(pattern, "$") && !strings.Contains(pattern, "|"):
		return translated
	}
	return ".*(?:" + translated + ").*"
}

// translatePattern translates letters, classes, groups and repetitions, and escapes what the v
// flag requires.
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

// isPortableEscape reports whether an escape has the same meaning in browsers.
func isPortableEscape(c byte, inClass bool) bool {
	return strings.IndexByte(`.*+?^$()[]{}|/\dws`, c) >= 0 || inClass && c == '-'
}

// escapeInClass escapes a character of a class if necessary. A dash in a range stays.
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

// isRepetition reports whether text starts with "{2}", "{2,}" or "{2,3}".
func isRepetition(text string) bool {
	inner, _, closed := strings.Cut(text[1:], "}")
	low, high, _ := strings.Cut(inner, ",")
	_, err := strconv.Atoi(low)
	return closed && err == nil && strings.Trim(high, "0123456789") == ""
}
