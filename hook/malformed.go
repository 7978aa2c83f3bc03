package hook

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MalformedError is an invalid response. Setpoint applies no part of such a response.
type MalformedError struct {
	// Path locates the error, such as "children[2].metadata.name"; empty for the
	// response as a whole.
	Path string
	Err  error
}

func (e *MalformedError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("malformed response: %v", e.Err)
	}
	return fmt.Sprintf("malformed response: %s: %v", e.Path, e.Err)
}

func (e *MalformedError) Unwrap() error { return e.Err }

// maxQuoted limits the bytes of a hook's text repeated in an error.
const maxQuoted = 60

// errorAt returns a MalformedError for the value read last, or for a path below it.
func (r *reader) errorAt(below, format string, args ...any) error {
	return malformedAt(pathOf(r.dec.StackPointer())+below, format, args...)
}

func malformedAt(path, format string, args ...any) error {
	return &MalformedError{Path: strings.TrimPrefix(path, "."), Err: fmt.Errorf(format, args...)}
}

// malformed converts an error of the JSON decoder to a MalformedError.
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
	return malformedAt(path, "%w at byte %d", syntax.Err, syntax.ByteOffset)
}

// pathOf formats a pointer as a field path, such as children[2].metadata.name.
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

// topLevelPath returns the path of a field of the response.
func topLevelPath(name string) string { return pathOf(jsontext.Pointer("").AppendToken(name)) }

// fieldPath returns the path of a field below the value read last.
func fieldPath(name string) string {
	path := topLevelPath(name)
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

var kindNames = map[jsontext.Kind]string{'n': "null", 't': "a boolean", 'f': "a boolean", '"': "a string", '0': "a number", '[': "a list"}

func describe(kind jsontext.Kind) string { return cmp.Or(kindNames[kind], "an object") }

// suggestion returns `; did you mean "children"?` with the first similar field, or "".
func suggestion(name string, fields []string) string {
	for _, field := range fields {
		if resembles(name, field) || isOtherType(name, field) {
			return fmt.Sprintf("; did you mean %q?", field)
		}
	}
	return ""
}

// isOtherType reports whether name is the other controller type's name for field.
func isOtherType(name, field string) bool {
	composite, decorator := Composite.childrenField(), Decorator.childrenField()
	return name == decorator && field == composite || name == composite && field == decorator
}

// resembles reports whether name may be a misspelling of field: their edit distance is
// at most 40 % of the field's length, or one contains the other.
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

// minSharedLetters is the minimum length of a name contained in another, as "related" in
// "relatedResources".
const minSharedLetters = 5

// editDistance returns the Levenshtein distance.
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
