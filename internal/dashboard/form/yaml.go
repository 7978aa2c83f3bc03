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

// SyntaxError is what is wrong with a text as YAML, and where.
type SyntaxError struct {
	// Line and Column count from 1; 0 where it is not known.
	Line, Column int
	Message      string
}

// Error says where, and what.
func (e *SyntaxError) Error() string {
	if e.Line == 0 {
		return "YAML: " + e.Message
	}
	return fmt.Sprintf("YAML: line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// ParseYAML reads one value, strictly: a key that is there twice is an error, and so
// is a second document. Numbers are json.Number. An empty text is nil.
func ParseYAML(text string) (any, error) {
	if err := limitYAML(text); err != nil {
		return nil, &SyntaxError{Message: err.Error()}
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if line := secondDocument(text); line > 0 {
		return nil, &SyntaxError{Line: line, Column: 1, Message: "a second document begins here; one object at a time"}
	}
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, newSyntaxError(text, err)
	}
	return decode(data)
}

// DecodeJSON reads an object with its numbers as json.Number. The error of one that is
// too large, of which no tree is made, wraps ErrInputTooLarge.
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
		return nil, fmt.Errorf("read an object: it is %.20s", data)
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
		return nil, errors.New("there is something behind it")
	}
	return value, nil
}

// FormatYAML writes a value; nothing for nil.
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

// secondDocument is the line on which one begins, 0 if none does.
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

// newSyntaxError finds the line in what the parser says. It knows no columns, so the text's
// beginning on that line is where the reader looks.
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
