package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxQuoted is how much of a hook's own words an error repeats.
const maxQuoted = 60

// errorAt is a complaint about what was read last, or something below it.
func (r *reader) errorAt(below, format string, args ...any) error {
	return malformedAt(pathOf(r.dec.StackPointer())+below, format, args...)
}

func malformedAt(path, format string, args ...any) error {
	return &MalformedError{Path: strings.TrimPrefix(path, "."), Err: fmt.Errorf(format, args...)}
}

// malformed gives an error of the JSON reader the form of our own.
func (r *reader) malformed(err error) error {
	if errors.Is(err, io.EOF) {
		return &MalformedError{Err: errors.New("empty")}
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return err
	}
	path := pathOf(syntax.JSONPointer)
	switch {
	case errors.Is(syntax.Err, jsontext.ErrDuplicateName):
		return malformedAt(path, "given twice")
	case errors.Is(syntax.Err, io.ErrUnexpectedEOF):
		return malformedAt(path, "cut short after %d bytes", len(r.data))
	}
	return malformedAt(path, "%w at %s", syntax.Err, position(r.data, syntax.ByteOffset))
}

// position names a position the way an editor or, for one long line, a hex dump
// counts.
func position(data []byte, offset int64) string {
	before := data[:min(offset, int64(len(data)))]
	line := bytes.Count(before, []byte("\n"))
	if line == 0 {
		return fmt.Sprintf("byte %d", offset)
	}
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf("line %d, column %d", line+1, column)
}

// pathOf writes a pointer the way people do: children[2].metadata.name.
func pathOf(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		switch {
		case isIndex(token):
			fmt.Fprintf(&b, "[%s]", token)
		case isPlain(token):
			b.WriteString("." + token)
		default:
			fmt.Fprintf(&b, "[%q]", shorten(token))
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

func isIndex(token string) bool { return token != "" && strings.Trim(token, "0123456789") == "" }

func isPlain(token string) bool {
	return token != "" && len(token) <= maxQuoted && !strings.ContainsFunc(token, func(c rune) bool {
		return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
}

// fieldPath is the path of a field within what was read last.
func fieldPath(name string) string {
	path := pathOf(jsontext.Pointer("").AppendToken(name))
	if strings.HasPrefix(path, "[") {
		return path
	}
	return "." + path
}

func shorten(s string) string { return truncate(s, maxQuoted) }

func truncate(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

func describe(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "a list"
	}
	return "an object"
}

// suggestion is `; did you mean "children"?`, or nothing.
func suggestion(name string, fields []string) string {
	for _, field := range fields {
		if resembles(name, field) || isOtherType(name, field) {
			return fmt.Sprintf("; did you mean %q?", field)
		}
	}
	return ""
}

// isOtherType says that the other form calls the field by this name.
func isOtherType(name, field string) bool {
	composite, decorator := Composite.childrenField(), Decorator.childrenField()
	return name == decorator && field == composite || name == composite && field == decorator
}

// resembles says whether a name may be a misspelling of a field: at most two
// letters in five are wrong, missing or too many, or one is a part of the other.
func resembles(name, field string) bool {
	name, field = strings.ToLower(name), strings.ToLower(field)
	if min(len(name), len(field)) >= minSharedLetters && (strings.Contains(field, name) || strings.Contains(name, field)) {
		return true
	}
	allowed := len(field) * 2 / 5
	if len(name) > len(field)+allowed || len(name)+allowed < len(field) {
		return false
	}
	return editDistance(name, field) <= allowed
}

// minSharedLetters is how many letters two names must share for one to suggest the
// other, as "related" does "relatedResources".
const minSharedLetters = 5

// editDistance is the edit distance of two words.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
