// Package redact keeps the values of Secrets out of what leaves a process: history, events, conditions, logs,
// recordings.
//
// Values are those that one run has seen, in requests, responses and writes. They are looked for in texts and in
// JSON, in the forms that encoders give them, and replaced by a mask, or by tokens that stay equal where values are.
package redact

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/lists"
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

// Logger returns a Logger whose lines have no values.
func (v *Values) Logger(log *slog.Logger) *slog.Logger {
	return slog.New(&logHandler{log.Handler(), v})
}

type logHandler struct {
	slog.Handler

	values *Values
}

func (h *logHandler) Handle(ctx context.Context, line slog.Record) error {
	masked := slog.NewRecord(line.Time, line.Level, h.values.Text(line.Message), line.PC)
	line.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, masked)
}

// attr replaces the values in what is logged as a text.
func (h *logHandler) attr(a slog.Attr) slog.Attr {
	switch value := a.Value.Resolve(); value.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.values.Text(value.String()))
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(lists.Map(value.Group(), h.attr)...)}
	case slog.KindAny:
		return slog.String(a.Key, h.values.Text(fmt.Sprint(value.Any())))
	default:
		return a
	}
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(lists.Map(attrs, h.attr)), h.values}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name), h.values}
}

// index finds many values in one pass over a text.
type index struct {
	// pairs has the first two bytes of all needles as bits, so that most positions cost one look.
	pairs []uint64
	// needles are by their first four bytes.
	needles map[uint32][]*needle
	// compared counts what was compared, less what the texts allow.
	compared int
}

// needle is a value in one form.
type needle struct {
	value, by string
	form      form
	// head is how the form begins, and whole all of it, once it was needed.
	head, whole string
	// alone means that it counts only where it is no part of a word.
	alone bool
}

// form is how an encoder writes a value. The form of the begin of a value is the begin of its form.
type form func(value []byte) string

func asIs(value []byte) string { return string(value) }

// formsOf returns the forms of a value that undoing escapes does not lead to.
func formsOf(value string) []form {
	all := []form{
		hex.EncodeToString,
		func(value []byte) string { return strings.ToUpper(hex.EncodeToString(value)) },
	}
	if strings.Contains(value, " ") {
		all = append(all, func(value []byte) string { return url.QueryEscape(string(value)) })
	}
	for _, encoding := range [...]*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		all = append(all, encoding.EncodeToString)
		for before := range 3 {
			all = append(all, within(encoding, before))
		}
	}
	return all
}

// within returns the form of a value in the base64 of a longer text, such as of user and password: what no other byte
// of it changes. There are three, by the number of bytes before the value.
func within(encoding *base64.Encoding, before int) form {
	return func(value []byte) string {
		text := encoding.EncodeToString(append(make([]byte, before), value...))
		return text[(before*8+5)/6 : (before+len(value))*8/6]
	}
}

// encodedTwice is the form of a value of which a hook encodes the base64, which it finds in the data of the Secret.
func encodedTwice(value []byte) string {
	return within(base64.RawStdEncoding, 0)([]byte(base64.StdEncoding.EncodeToString(value)))
}

// headBytes is how much of a value is enough to recognize it, so that a quote may be cut.
const headBytes = 24

func (x *index) add(value string, as form, by string, alone bool) {
	n := &needle{value: value, by: by, form: as, head: as([]byte(value[:min(len(value), headBytes)])), alone: alone}
	if len(n.head) < minValue {
		return
	}
	if x.needles == nil {
		x.pairs, x.needles = make([]uint64, 1<<16/64), map[uint32][]*needle{}
	}
	pair, key := pairAt(n.head, 0), keyAt(n.head, 0)
	x.pairs[pair/64] |= 1 << (pair % 64)
	x.needles[key] = append(x.needles[key], n)
}

func pairAt(text string, i int) uint16 { return uint16(text[i]) | uint16(text[i+1])<<8 }

func keyAt(text string, i int) uint32 {
	return uint32(pairAt(text, i)) | uint32(pairAt(text, i+2))<<16
}

// span is where a value is in a text, and what replaces it.
type span struct {
	start, end int
	by         string
}

// The bytes that may be compared: at first, and for each byte of a text.
const firstCompared, maxCompared = 1 << 20, 32

// find returns where values are in a text as it is. They may overlap. A text that is like too many values is one as a whole.
func (x *index) find(text string) (spans []span) {
	x.compared -= maxCompared * len(text)
	for i := 0; i+minValue <= len(text); i++ {
		pair := pairAt(text, i)
		if x.pairs[pair/64]&(1<<(pair%64)) == 0 {
			continue
		}
		longest := span{start: i, end: i}
		for _, n := range x.needles[keyAt(text, i)] {
			size := n.matches(text, i)
			if x.compared += 1 + size; x.compared > firstCompared {
				return []span{{0, len(text), Mask}}
			}
			if i+size > longest.end {
				longest.end, longest.by = i+size, n.by
			}
		}
		if longest.end > i {
			spans = append(spans, longest)
			i = max(i, longest.end-headBytes) // Another value may begin in the last part of this one.
		}
	}
	return spans
}

func (n *needle) matches(text string, at int) int {
	rest := text[at:]
	if same := commonPrefix(rest, n.head); same < len(n.head) {
		if strings.HasPrefix(rest[same:], cutMark) {
			return same
		}
		return 0
	}
	if n.alone && (at > 0 && isWord(text[at-1]) || len(rest) > len(n.head) && isWord(rest[len(n.head)])) {
		return 0
	}
	if len(n.value) <= headBytes {
		return len(n.head)
	}
	if n.whole == "" {
		n.whole = n.form([]byte(n.value))
	}
	return commonPrefix(rest, n.whole)
}

// cutMark is at the end of a quote that was cut, wherever.
const cutMark = "…"

func commonPrefix(a, b string) (size int) {
	for size < min(len(a), len(b)) && a[size] == b[size] {
		size++
	}
	return size
}

func isWord(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}

// findEscaped returns where values are in a text, also with the escapes of JSON and of URLs, in order and apart.
func (x *index) findEscaped(text string) []span {
	if x.needles == nil {
		return nil
	}
	spans := x.find(text)
	plain := unescaped{text: text}
	for range maxEscapes {
		if plain = plain.next(); plain.text == "" {
			break
		}
		for _, s := range x.find(plain.text) {
			spans = append(spans, span{plain.at[s.start], plain.at[s.end], s.by})
		}
	}
	return merge(spans)
}

// merge joins spans that overlap. The longest says what replaces them.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	var merged []span
	longest := 0
	for _, s := range spans {
		if len(merged) == 0 || s.start >= merged[len(merged)-1].end {
			merged, longest = append(merged, s), s.end-s.start
			continue
		}
		last := &merged[len(merged)-1]
		if size := s.end - s.start; size > longest {
			last.by, longest = s.by, size
		}
		last.end = max(last.end, s.end)
	}
	return merged
}
