package codec

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/setpoint-dev/setpoint/hook"
)

// maxQuoted limits the bytes of a hook's text repeated in an error.
const maxQuoted = 60

// malformedAt returns a MalformedError for a path, which may begin with a dot.
func malformedAt(path, format string, args ...any) error {
	return &hook.MalformedError{Path: strings.TrimPrefix(path, "."), Err: fmt.Errorf(format, args...)}
}

// pathOf formats a pointer as a field path, such as .children[2].metadata.name.
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
	return b.String()
}

func isIndex(token string) bool { return token != "" && strings.Trim(token, "0123456789") == "" }

func isPlain(token string) bool {
	return token != "" && len(token) <= maxQuoted && !strings.ContainsFunc(token, func(c rune) bool {
		return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
}

// fieldPath returns the path of a field below the value read last.
func fieldPath(name string) string { return pathOf(jsontext.Pointer("").AppendToken(name)) }

func shorten(s string) string { return truncate(s, maxQuoted) }

func truncate(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// isOtherType reports whether name is what the other type of controllers calls the field known.
func isOtherType(name, known string) bool {
	_, composite := fieldsOf(hook.Composite)
	_, decorator := fieldsOf(hook.Decorator)
	return name == decorator && known == composite || name == composite && known == decorator
}

// resembles reports whether name may be a misspelling of known: their edit distance is
// at most 40 % of the length of the known one, or one contains the other.
func resembles(name, known string) bool {
	name, known = strings.ToLower(name), strings.ToLower(known)
	if min(len(name), len(known)) >= minSharedLetters && (strings.Contains(known, name) || strings.Contains(name, known)) {
		return true
	}
	allowed := len(known) * 2 / 5
	if len(name) > len(known)+allowed || len(name)+allowed < len(known) {
		return false
	}
	return editDistance(name, known) <= allowed
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
