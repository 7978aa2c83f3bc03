package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxValue is how many characters of a value are shown in a line.
const maxValue = 120

// Value is a JSON value in a line: a string without its quotes where nothing is lost
// by that, anything else as compact JSON, and not too long.
func Value(value json.RawMessage) string {
	var text string
	if json.Unmarshal(shortValue(value), &text) == nil && isPlain(text) {
		return Shorten(text, maxValue)
	}
	var line bytes.Buffer
	if len(value) > 8*maxValue || json.Compact(&line, value) != nil {
		return Shorten(string(value), maxValue)
	}
	return Shorten(line.String(), maxValue)
}

// shortValue spares long values the reading: they are cut anyhow.
func shortValue(value json.RawMessage) json.RawMessage {
	if len(value) > 8*maxValue {
		return nil
	}
	return value
}

// isPlain says that a string cannot be taken for something else without its quotes.
func isPlain(text string) bool {
	if text == "" || text != strings.TrimSpace(text) || strings.ContainsAny(text, "\n\"{[") {
		return false
	}
	return !json.Valid([]byte(text))
}

// Shorten is a text of no more than so many characters, Visible.
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

// EscapeInvisible is a text in which nothing hides: characters that turn the direction of
// what follows, or show nothing at all, are written as escapes.
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

// Pretty is JSON in lines, Visible; what is no JSON is left as it is. The bool says
// that it was cut: there were more than so many bytes.
func Pretty(value json.RawMessage, most int) (string, bool) {
	text := value
	var pretty bytes.Buffer
	if len(value) <= MaxBytes && json.Indent(&pretty, value, "", "  ") == nil {
		text = pretty.Bytes()
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
