// Package redact keeps the values of Secrets out of what leaves a process: history, events, conditions, logs,
// recordings.
//
// Values are those that one run has seen, in requests, responses and writes. They are looked for in texts and in
// JSON, in the forms that encoders give them, and replaced by a mask, or by tokens that stay equal where values are.
package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// Mask replaces a value where a reader sees it.
const Mask = "••••••"

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

// replacementOf is what replaces a value, and what replaces its base64.
func (v *Values) replacementOf(value string) (plain, encoded string) {
	if v.key == nil {
		return Mask, Mask
	}
	token := v.key.Token(value)
	return token, encodeToken(token)
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

// The lengths from which values and numbers are looked for.
const (
	minValue  = 4
	minNumber = 6
)

// ordinaryWords are in every request: fields that tell objects from other JSON, literals, statuses of conditions, the
// namespace that every cluster has, and the parts of a token.
const ordinaryWords = "apiVersion kind metadata name namespace labels annotations spec status data stringData " +
	"controller parent children attachments related finalizing customize object owned patch jsonPatch changes path " +
	"true false null none True False Unknown None default Secret v1 " + tokenPrefix

// quotingError is an error whose text may quote values.
type quotingError struct {
	err    error
	values *Values
}

func (q *quotingError) Error() string { return q.values.Text(q.err.Error()) }
func (q *quotingError) Unwrap() error { return q.err }

// Redact replaces the values in another text of the error, such as a field path.
func (q *quotingError) Redact(text string) string { return q.values.Text(text) }

// Error returns an error without the values in its text, and in texts of the errors that wrap it. It returns nil for nil.
func (v *Values) Error(err error) error {
	if v == nil || err == nil {
		return err
	}
	return &quotingError{err, v}
}
