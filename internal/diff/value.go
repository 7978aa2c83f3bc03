package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// maxValue limits the characters of a value.
const maxValue = 120

// Change formats the change of a field in one line.
func Change(c object.FieldChange) string {
	switch {
	case c.From == nil:
		return c.Path + " set to " + Value(c.To)
	case c.To == nil:
		return c.Path + " removed; was " + Value(c.From)
	}
	return c.Path + ": " + Value(c.From) + " → " + Value(c.To)
}

// Value formats a JSON value in one line: a string without quotes if that is unambiguous,
// otherwise compact JSON.
func Value(value json.RawMessage) string {
	if len(value) > 8*maxValue { // It is truncated anyway, so it need not be parsed.
		return Shorten(string(value), maxValue)
	}
	var text string
	if json.Unmarshal(value, &text) == nil && isPlain(text) {
		return Shorten(text, maxValue)
	}
	var line bytes.Buffer
	if json.Compact(&line, value) != nil {
		return Shorten(string(value), maxValue)
	}
	return Shorten(Unescaped(line.Bytes()), maxValue)
}

// Unescaped returns JSON without what Go's encoder does to it for the sake of browsers. Escaped backslashes stay.
func Unescaped(value json.RawMessage) string {
	return strings.NewReplacer(`\\`, `\\`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(value))
}

// isPlain reports whether a string is unambiguous without quotes.
func isPlain(text string) bool {
	if text == "" || text != strings.TrimSpace(text) || strings.ContainsAny(text, "\n\"{[") {
		return false
	}
	return !json.Valid([]byte(text))
}

// Shorten truncates a text to a number of characters, with invisible ones escaped.
func Shorten(text string, most int) string {
	text = text[:min(len(text), most*utf8.UTFMax)]
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "")
	}
	text = EscapeInvisible(text)
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	runes := []rune(text)
	return string(runes[:most]) + "…"
}

// EscapeInvisible escapes characters that are invisible or change the text direction.
func EscapeInvisible(text string) string {
	if strings.IndexFunc(text, isInvisible) < 0 {
		return text
	}
	var shown strings.Builder
	for _, r := range text {
		if isInvisible(r) {
			fmt.Fprintf(&shown, "\\u%04x", r)
			continue
		}
		shown.WriteRune(r)
	}
	return shown.String()
}

func isInvisible(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// Pretty indents JSON and escapes invisible characters; other text stays as it is. It reports
// whether the text was truncated to a number of bytes.
func Pretty(value json.RawMessage, most int) (string, bool) {
	text := []byte(value)
	if len(value) <= MaxBytes {
		text, _ = object.Indent(value)
	}
	cut := len(text) > most
	if cut {
		text = text[:most]
		if end := bytes.LastIndexByte(text, '\n'); end > 0 {
			text = text[:end+1]
		}
	}
	return EscapeInvisible(strings.ToValidUTF8(string(text), "�")), cut
}
