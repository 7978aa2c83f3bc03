package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// MaxValues limits the values of an object: objects, lists and scalars at all levels. A limit of bytes is not enough,
// since an empty object takes two bytes as text and about a hundred in memory. Texts may look like more values, so that
// YAML may have a few times as many; the parser limits aliases.
const (
	MaxValues     = 50_000
	maxYAMLValues = 6 * MaxValues
)

func limitJSON(data []byte) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("it has more than %d bytes: %w", MaxBytes, ErrInputTooLarge)
	}
	if object.LimitValues(data, MaxValues) != nil {
		return fmt.Errorf("it has more than %d values: %w", MaxValues, ErrInputTooLarge)
	}
	return nil
}

// countValues returns an upper bound of the values in YAML: each follows a comma, an opening bracket, a
// colon, a dash or a question mark, or is the first.
func countValues(text string) int {
	count := 1
	for i := range len(text) {
		switch text[i] {
		case ',', '[', '{':
			count++
		case ':', '-', '?':
			if i+1 == len(text) || text[i+1] <= ' ' || text[i] == ':' && strings.IndexByte(`"'[{]},`, text[i+1]) >= 0 {
				count++
			}
		}
	}
	return count
}

// ParseYAML parses one value strictly: duplicate keys and several documents are errors. Numbers
// are json.Number. An empty text is nil.
func ParseYAML(text string) (any, error) {
	if len(text) > MaxBytes || countValues(text) > maxYAMLValues {
		return nil, fmt.Errorf("YAML: it has more than %d bytes or %d values: %w", MaxBytes, maxYAMLValues, ErrInputTooLarge)
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if line := secondDocument(text); line > 0 {
		return nil, fmt.Errorf("YAML: line %d: second document: only one object is allowed", line)
	}
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, syntaxError(err)
	}
	if err := limitJSON(data); err != nil {
		return nil, fmt.Errorf("YAML: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	err = decoder.Decode(&value)
	return value, err
}

// DecodeJSON decodes an object with numbers as json.Number. The error of a too large object wraps ErrInputTooLarge.
func DecodeJSON(data []byte) (map[string]any, error) {
	err := limitJSON(data)
	var members map[string]any
	if err == nil {
		members, err = object.DecodeExact(data)
	}
	if err != nil {
		return nil, fmt.Errorf("read an object: %w", err)
	}
	return members, nil
}

// FormatYAML returns a value as YAML; "" for nil.
func FormatYAML(value any) string {
	if value == nil {
		return ""
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// secondDocument returns the line of a second document; 0 for none.
func secondDocument(text string) int {
	seen := false
	for i, line := range strings.Split(text, "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case line == "---" || strings.HasPrefix(line, "--- "):
			if seen {
				return i + 1
			}
		case trimmed != "" && !strings.HasPrefix(trimmed, "#"):
			seen = true
		}
	}
	return 0
}

var linePattern = regexp.MustCompile(`line \d+: [^\n]*`)

// syntaxError returns the first line that the parser complains about.
func syntaxError(err error) error {
	if found := linePattern.FindString(err.Error()); found != "" {
		return errors.New("YAML: " + found)
	}
	message := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	return errors.New("YAML: " + strings.TrimPrefix(message, "yaml: "))
}
