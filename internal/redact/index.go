package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

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

// minValue is the length from which values are looked for: needles are found by so many bytes.
const minValue = 4

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
