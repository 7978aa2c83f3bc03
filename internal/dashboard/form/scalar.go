package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

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
