package form

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

func formatScalar(value any, kind Type) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		if kind == IntOrString && wholeNumber.MatchString(v) {
			// Without quotes it would be parsed as a number.
			return strconv.Quote(v)
		}
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool, int64, int, json.Number:
		return fmt.Sprint(v)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

var (
	wholeNumber = regexp.MustCompile(`^[+-]?\d+$`)
	realNumber  = regexp.MustCompile(`^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$`)
)

// parseScalar parses an input, or returns what is wrong.
func parseScalar(f *Field) (value any, problem string) {
	switch f.Type {
	case Boolean:
		if f.Text != "true" && f.Text != "false" {
			return nil, "Choose true or false."
		}
		return f.Text == "true", ""
	case Integer:
		return parseInteger(f.Text)
	case Number:
		return parseNumber(f.Text)
	case IntOrString:
		if wholeNumber.MatchString(f.Text) {
			return parseInteger(f.Text)
		}
		if text, err := strconv.Unquote(f.Text); err == nil && strings.HasPrefix(f.Text, `"`) {
			return text, ""
		}
	}
	// Browsers send CRLF line breaks.
	return strings.ReplaceAll(f.Text, "\r\n", "\n"), ""
}

func parseInteger(text string) (value any, problem string) {
	text = strings.TrimSpace(text)
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, failure.Truncate(text, 40) + " is too large: the maximum is 9223372036854775807."
	case err != nil:
		return nil, fmt.Sprintf("%q is not an integer.", failure.Truncate(text, 40))
	}
	return json.Number(strconv.FormatInt(n, 10)), ""
}

func parseNumber(text string) (value any, problem string) {
	text = strings.TrimPrefix(strings.TrimSpace(text), "+")
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	if !realNumber.MatchString(text) {
		return nil, fmt.Sprintf("%q is not a number.", failure.Truncate(text, 40))
	}
	return json.Number(text), ""
}

// newInput returns the input of a simple field. The API server checks what is entered.
func newInput(f *Field, s *spec.Schema) Input {
	in := Input{Widget: "text", Type: "text", Placeholder: f.Default}
	switch {
	case len(s.Enum) > 0:
		return newSelect(f, s.Enum)
	case f.Type == Boolean:
		return newSelect(f, []any{true, false})
	case f.Type == Integer || f.Type == Number:
		if f.Text == "" || browserNumber.MatchString(f.Text) { // A browser would show and send nothing.
			in.Type, in.Step = "number", map[Type]string{Integer: "1", Number: "any"}[f.Type]
			in.Min, in.Max = formatBound(s.Minimum, s.ExclusiveMinimum), formatBound(s.Maximum, s.ExclusiveMaximum)
		}
		return in
	case s.Format == "password":
		in.Type = "password"
	case s.Format == "byte" || isLong(f, s):
		in.Widget, in.Type = "area", ""
	}
	in.Placeholder = cmp.Or(in.Placeholder, placeholders[cmp.Or(s.Format, string(f.Type))])
	return in
}

var placeholders = map[string]string{
	"date": "2006-01-02", "date-time": "2006-01-02T15:04:05Z", "duration": "1h30m", "byte": "in base64",
	string(IntOrString): "number or text",
}

// browserNumber matches the numbers that browsers accept.
var browserNumber = regexp.MustCompile(`^-?(\d+(\.\d+)?|\.\d+)([eE][+-]?\d+)?$`)

// newSelect returns a choice of values, and of the present one even if it is invalid.
func newSelect(f *Field, values []any) Input {
	in := Input{Widget: "select"}
	for _, value := range values {
		text := formatScalar(value, f.Type)
		in.Options = append(in.Options, Option{text, text == f.Text})
	}
	if f.Text != "" && !slices.Contains(in.Options, Option{f.Text, true}) {
		in.Options = append(in.Options, Option{f.Text, true})
	}
	return in
}

// longText is the length from which a text has an input of several lines.
const longText = 80

// isLong reports whether a string has several lines, or is or may be long: the schema limits it to more than two lines.
func isLong(f *Field, s *spec.Schema) bool {
	mayBeLong := s.MaxLength != nil && *s.MaxLength > 2*longText && s.Format == "" && s.Pattern == ""
	return f.Type == String && (mayBeLong || strings.ContainsAny(f.Text, "\r\n") || len(cmp.Or(f.Text, f.Default)) > longText)
}

// formatBound formats a minimum or maximum. HTML has no exclusive bounds.
func formatBound(limit *float64, exclusive bool) string {
	if limit == nil || exclusive {
		return ""
	}
	return strconv.FormatFloat(*limit, 'f', -1, 64)
}
