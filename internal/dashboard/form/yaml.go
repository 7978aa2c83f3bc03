package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// SyntaxError is a YAML syntax error.
type SyntaxError struct {
	// Line and Column start at 1; 0 if unknown.
	Line, Column int
	Message      string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return "YAML: " + e.Message
	}
	return fmt.Sprintf("YAML: line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// ParseYAML parses one value strictly: duplicate keys and several documents are errors. Numbers
// are json.Number. An empty text is nil.
func ParseYAML(text string) (any, error) {
	if err := limitYAML(text); err != nil {
		return nil, &SyntaxError{Message: err.Error()}
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if line := secondDocument(text); line > 0 {
		return nil, &SyntaxError{Line: line, Column: 1, Message: "second document: only one object is allowed"}
	}
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, newSyntaxError(text, err)
	}
	return decode(data)
}

// DecodeJSON decodes an object with numbers as json.Number. The error of a too large object
// wraps ErrInputTooLarge.
func DecodeJSON(data []byte) (map[string]any, error) {
	if err := limitJSON(data); err != nil {
		return nil, fmt.Errorf("read an object: %w", err)
	}
	value, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("read an object: %w", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("read an object: got %.20s", data)
	}
	return object, nil
}

func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("trailing data")
	}
	return value, nil
}

// FormatYAML returns a value as YAML; "" for nil.
func FormatYAML(value any) string {
	if value == nil {
		return ""
	}
	data, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	text, err := yaml.JSONToYAML(data)
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

var linePattern = regexp.MustCompile(`(?s)line (\d+): ([^\n]*)`)

// newSyntaxError extracts the line of a parser error. The parser reports no columns, so it
// points to the first character of the line.
func newSyntaxError(text string, err error) error {
	found := linePattern.FindStringSubmatch(err.Error())
	if found == nil {
		message := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
		return &SyntaxError{Message: strings.TrimPrefix(message, "yaml: ")}
	}
	line, _ := strconv.Atoi(found[1])
	lines := strings.Split(text, "\n")
	column := 1
	if line >= 1 && line <= len(lines) {
		on := lines[line-1]
		column = 1 + len(on) - len(strings.TrimLeft(on, " \t"))
	}
	return &SyntaxError{Line: line, Column: column, Message: found[2]}
}
