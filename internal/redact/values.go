// Package redact keeps the values of Secrets out of what leaves a process: history, events, conditions, logs,
// recordings.
//
// Values are those that one run has seen, in requests, responses and writes. They are looked for in texts and in
// JSON, in the forms that encoders give them, and replaced by a mask, or by tokens that stay equal where values are.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Values are the values of the Secrets that a run has seen. The Secrets are read when the first text is to leave, so
// that a run without errors and events costs nothing. A nil Values has none. It is safe for concurrent use.
type Values struct {
	key *Key

	mu sync.Mutex
	// unread are the sources that may have Secrets.
	unread []source
	// found means that there was a Secret.
	found bool
	known map[string]bool
	// public are names that every text about the run has.
	public []string
	index  index
}

// source calls a function with JSON. If it is about a Secret, its patches are parts of one.
type source struct {
	secret bool
	each   func(visit func(json.RawMessage))
}

// New returns no values yet. Tokens of the key replace them, or the Mask without a key. What equals a public name, that
// of the object that the run is about, is no secret.
func New(key *Key, public ...string) *Values {
	return &Values{key: key, public: public}
}

// In returns the values of the Secrets in JSON.
func In(text json.RawMessage) *Values {
	v := New(nil)
	v.See(false, func(visit func(json.RawMessage)) { visit(text) })
	return v
}

// See adds what a run has seen: each calls a function with all JSON of it. It is called later, if at all. A source that is
// about a Secret has parts of one in its patches and changes.
func (v *Values) See(secret bool, each func(visit func(json.RawMessage))) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unread = append(v.unread, source{secret, each})
}

// Include adds the values of another set.
func (v *Values) Include(other *Values) {
	if other == nil {
		return
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	other.read()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.found = v.found || other.found
	for used := range other.known {
		v.add(used, false)
	}
}

// Found reports whether there was a Secret.
func (v *Values) Found() bool {
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read()
	return v.found
}

// Text replaces the values in a text.
func (v *Values) Text(text string) string {
	if v == nil || text == "" {
		return text
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read()
	return v.replace(text)
}

// replace is Text for what is read.
func (v *Values) replace(text string) string {
	spans := v.index.findEscaped(text)
	if len(spans) == 0 {
		return text
	}
	var shown strings.Builder
	end := 0
	for _, s := range spans {
		shown.WriteString(text[end:s.start])
		shown.WriteString(s.by)
		end = s.end
	}
	shown.WriteString(text[end:])
	return shown.String()
}

// read collects the values of what was seen since.
func (v *Values) read() {
	for _, s := range v.unread {
		v.found = v.found || s.secret
		s.each(func(text json.RawMessage) {
			if !s.secret && !MayHaveSecret(text) {
				return
			}
			if value, err := decode(text); err == nil { // Other text is masked as a whole.
				v.collect(value, s.secret)
			}
		})
	}
	v.unread = nil
}

// collect adds the values of the Secrets in a value of JSON.
func (v *Values) collect(value any, secret bool) {
	switch inner := value.(type) {
	case map[string]any:
		if object.IsSecret(inner) {
			v.addSecret(inner)
		}
		if secret {
			v.addParts(inner)
		}
		for _, each := range inner {
			v.collect(each, secret)
		}
	case []any:
		for _, each := range inner {
			v.collect(each, secret)
		}
	}
}

// addSecret adds the values of a Secret, or of a patch of one.
func (v *Values) addSecret(secret map[string]any) {
	v.found = true
	eachText(secret["data"], func(text string) { v.add(text, true) })
	eachText(secret["stringData"], func(text string) { v.add(text, false) })
}

// addParts adds the values of parts of a Secret: of its patches, and of fields with their path.
func (v *Values) addParts(part map[string]any) {
	if patch, is := part["patch"].(map[string]any); is {
		v.addSecret(patch)
	}
	for _, name := range changedSides(part) {
		eachText(part[name], func(text string) { v.add(text, isData(part["path"])) })
	}
}

// changedSides returns which members of a change of a Secret, or of an operation of a JSON patch, have values of it.
func changedSides(change map[string]any) []string {
	path, is := change["path"].(string)
	path = strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "."), "~1", "/")
	if !is || !object.IsSecretField(path) {
		return nil
	}
	return []string{"value", "from", "to"}
}

// isData reports whether a path is that of encoded values.
func isData(path any) bool {
	text, _ := path.(string)
	return strings.HasPrefix(strings.TrimPrefix(text, "/"), "data")
}

// eachText calls a function with all texts and numbers in a value.
func eachText(value any, visit func(string)) {
	switch inner := value.(type) {
	case string:
		visit(inner)
	case json.Number:
		visit(inner.String()) // It is invalid in a Secret, but it may be the value elsewhere.
	case map[string]any:
		for _, each := range inner {
			eachText(each, visit)
		}
	case []any:
		for _, each := range inner {
			eachText(each, visit)
		}
	}
}

// add adds a value as it is stored.
func (v *Values) add(stored string, encoded bool) {
	used := stored
	if decoded, err := base64.StdEncoding.DecodeString(stored); encoded && err == nil {
		used = string(decoded)
	}
	if v.known[used] {
		return
	}
	if v.known == nil {
		v.known = map[string]bool{}
	}
	v.known[used] = true
	trimmed := trim(used)
	if v.isPublic(trimmed) {
		return
	}
	plain, inData := v.replacementOf(used) // Of forms of one length, the first counts.
	for _, whole := range slices.Compact([]string{used, trimmed}) {
		v.index.add(whole, base64.StdEncoding.EncodeToString, inData, false)
		v.index.add(whole, encodedTwice, plain, false)
	}
	for _, form := range append(formsOf(trimmed), asIs) {
		v.index.add(trimmed, form, plain, len(trimmed) < minPart) // A short value counts where it stands alone.
	}
	for _, part := range partsOf(used) {
		if len(part) >= minPart && !v.isPublic(part) {
			plain, _ := v.replacementOf(part)
			v.index.add(part, asIs, plain, false)
		}
	}
}

// trim removes what users of a value remove: white space around it, and the first line of PEM, which says what follows.
func trim(value string) string {
	value = strings.TrimSpace(value)
	if first, rest, more := strings.Cut(value, "\n"); more && strings.HasPrefix(first, pemLine) {
		return rest
	}
	return value
}

const pemLine = "-----"

// minPart is the length from which a part of a value is looked for, and a value within words.
const minPart = 8

// partsOf returns what may be quoted of a longer value: its lines, what they assign, and the texts of JSON.
func partsOf(value string) (parts []string) {
	if json.Valid([]byte(value)) {
		if inner, err := decode(json.RawMessage(value)); err == nil {
			eachText(inner, func(text string) { parts = append(parts, text) })
		}
	}
	parts = append(parts, strings.Join(strings.Fields(trim(value)), " ")) // As errors quote several lines.
	for line := range strings.Lines(value) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, pemLine) {
			parts = append(parts, line)
		}
		for _, separator := range [...]string{"=", ": "} {
			if _, assigned, is := strings.Cut(line, separator); is {
				parts = append(parts, strings.Trim(assigned, `"' `))
			}
		}
	}
	return parts
}

// decode keeps numbers as they are written.
func decode(text json.RawMessage) (value any, err error) {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	err = reader.Decode(&value)
	return value, err
}

// replacementOf is what replaces a value, and what replaces its base64.
func (v *Values) replacementOf(value string) (plain, encoded string) {
	if v.key == nil {
		return Mask, Mask
	}
	token := v.key.Token(value)
	return token, base64.StdEncoding.EncodeToString([]byte(token))
}

// MayHaveSecret reports whether JSON may contain a Secret. The kind may be written with escapes.
func MayHaveSecret(text json.RawMessage) bool {
	// Quotes are everywhere in JSON, and a search that begins with one is slow.
	return bytes.Contains(text, []byte(`Secret"`)) && bytes.Contains(text, []byte(`"Secret"`)) || bytes.Contains(text, []byte(`\u`))
}

// isPublic reports whether a text that may be a value is not looked for: short ones, small numbers, which are ports, words
// without which JSON cannot be read, and the names of the object.
func (v *Values) isPublic(text string) bool {
	small := len(text) < minNumber && strings.Trim(text, "0123456789") == ""
	return len(text) < minValue || small || strings.Contains(ordinaryWords, text) || slices.Contains(v.public, text)
}

// minNumber is the length from which numbers are looked for.
const minNumber = 6

// ordinaryWords are in every request: fields that tell objects from other JSON, literals, statuses of conditions, the
// namespace that every cluster has, and the parts of a token.
const ordinaryWords = "apiVersion kind metadata name namespace labels annotations spec status data stringData " +
	"controller parent children attachments related finalizing customize object owned patch jsonPatch changes path " +
	"true false null none True False Unknown None default Secret v1 " + tokenPrefix
