package object

import (
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// reader reads JSON tokens like a *jsontext.Decoder.
type reader interface {
	PeekKind() jsontext.Kind
	ReadToken() (jsontext.Token, error)
	ReadValue() (jsontext.Value, error)
	SkipValue() error
	InputOffset() int64
}

var (
	_ reader = &jsontext.Decoder{}
	_ reader = &scanner{}
)

// errNotPlain means that the scanner cannot read the data, which may still be valid JSON.
var errNotPlain = errors.New("no plain JSON")

const (
	// maxOpen limits the nesting that ReadToken follows; maxDepth, that of values, as in the
	// decoder.
	maxOpen  = 8
	maxDepth = 10_000
)

// scanner reads JSON in place, in a third of a decoder's time and without allocations. It
// accepts valid JSON only, but fails on rare forms and does not say why: then a decoder is
// used.
type scanner struct {
	data []byte
	// end is the end of the last token; next is the start of the next one.
	end, next int
	// ready reports whether next is known.
	ready bool
	depth uint8
	open  [maxOpen]container
}

// container is the state of an open object or list.
type container uint8

const (
	isObject container = 1 << iota
	// nonEmpty is set after the first value or name.
	nonEmpty
	// hasName is set after a name, until its value.
	hasName
)

// InputOffset returns the end of the last token.
func (s *scanner) InputOffset() int64 { return int64(s.end) }

// PeekKind returns the kind of the next token; 0 if there is none.
func (s *scanner) PeekKind() jsontext.Kind {
	if !s.seek() {
		return 0
	}
	return kindOf(s.data[s.next])
}

// kindOf returns the kind of a token that starts with c.
func kindOf(c byte) jsontext.Kind {
	switch c {
	case '"', '{', '}', '[', ']', 't', 'f', 'n':
		return jsontext.Kind(c)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	}
	return 0
}

// ReadToken reads the start or the end of a container, or io.EOF.
func (s *scanner) ReadToken() (jsontext.Token, error) {
	if !s.seek() {
		if s.depth == 0 && s.next == len(s.data) {
			return jsontext.Token{}, io.EOF
		}
		return jsontext.Token{}, errNotPlain
	}
	switch c := s.data[s.next]; {
	case (c == '{' || c == '[') && s.depth < maxOpen && !s.expectsName():
		s.consume(s.next + 1)
		s.open[s.depth] = 0
		if c == '{' {
			s.open[s.depth] = isObject
		}
		s.depth++
		return tokenOf(c), nil
	case (c == '}' || c == ']') && s.canClose(c):
		s.end, s.ready = s.next+1, false
		s.depth--
		return tokenOf(c), nil
	}
	return jsontext.Token{}, errNotPlain
}

func tokenOf(c byte) jsontext.Token {
	switch c {
	case '{':
		return jsontext.BeginObject
	case '}':
		return jsontext.EndObject
	case '[':
		return jsontext.BeginArray
	}
	return jsontext.EndArray
}

// ReadValue reads a value or a member name.
func (s *scanner) ReadValue() (jsontext.Value, error) {
	if !s.seek() || s.expectsName() && s.data[s.next] != '"' {
		return nil, errNotPlain
	}
	from := s.next
	end, ok := skip(s.data, from, 0)
	if !ok {
		return nil, errNotPlain
	}
	s.consume(end)
	return jsontext.Value(s.data[from:end]), nil
}

// SkipValue skips a value.
func (s *scanner) SkipValue() error {
	_, err := s.ReadValue()
	return err
}

// consume advances past a token.
func (s *scanner) consume(end int) {
	s.end, s.ready = end, false
	if s.depth == 0 {
		return
	}
	in := &s.open[s.depth-1]
	*in |= nonEmpty
	if *in&isObject != 0 {
		*in ^= hasName
	}
}

// expectsName reports whether a member name must follow.
func (s *scanner) expectsName() bool {
	return s.depth > 0 && s.open[s.depth-1]&(isObject|hasName) == isObject
}

// canClose reports whether the container may end here.
func (s *scanner) canClose(c byte) bool {
	if s.depth == 0 {
		return false
	}
	in := s.open[s.depth-1]
	return in&isObject != 0 == (c == '}') && in&hasName == 0
}

// seek finds the next token after the required comma or colon.
func (s *scanner) seek() bool {
	if s.ready {
		return true
	}
	at := skipSpace(s.data, s.end)
	if at < len(s.data) && s.depth > 0 {
		if separator := s.separator(s.data[at]); separator != 0 {
			if s.data[at] != separator {
				s.next = at
				return false
			}
			at = skipSpace(s.data, at+1)
			if at < len(s.data) && (s.data[at] == '}' || s.data[at] == ']') {
				return false
			}
		}
	}
	s.next, s.ready = at, at < len(s.data)
	return s.ready
}

// separator returns what must precede the next token, which starts with c if nothing must.
func (s *scanner) separator(c byte) byte {
	switch in := s.open[s.depth-1]; {
	case in&hasName != 0:
		return ':'
	case in&nonEmpty != 0 && c != '}' && c != ']':
		return ','
	}
	return 0
}

func skipSpace(data []byte, at int) int {
	for at < len(data) && (data[at] == ' ' || data[at] == '\n' || data[at] == '\t' || data[at] == '\r') {
		at++
	}
	return at
}

// skip returns the end of the value that starts at a position.
func skip(data []byte, at, depth int) (end int, ok bool) {
	if at >= len(data) || depth > maxDepth {
		return 0, false
	}
	switch c := data[at]; c {
	case '"':
		return skipText(data, at+1)
	case '{':
		return skipObject(data, at+1, depth+1)
	case '[':
		return skipList(data, at+1, depth+1)
	case 't':
		return skipWord(data, at, "true")
	case 'f':
		return skipWord(data, at, "false")
	case 'n':
		return skipWord(data, at, "null")
	default:
		return skipNumber(data, at)
	}
}

func skipWord(data []byte, at int, word string) (int, bool) {
	end := at + len(word)
	return end, end <= len(data) && string(data[at:end]) == word
}

func skipObject(data []byte, at, depth int) (int, bool) {
	if at = skipSpace(data, at); hasByte(data, at, '}') {
		return at + 1, true
	}
	for {
		if !hasByte(data, at, '"') {
			return 0, false
		}
		end, ok := skipText(data, at+1)
		at = skipSpace(data, end)
		if !ok || !hasByte(data, at, ':') {
			return 0, false
		}
		end, ok = skip(data, skipSpace(data, at+1), depth)
		at = skipSpace(data, end)
		switch {
		case ok && hasByte(data, at, '}'):
			return at + 1, true
		case !ok || !hasByte(data, at, ','):
			return 0, false
		}
		at = skipSpace(data, at+1)
	}
}

func skipList(data []byte, at, depth int) (int, bool) {
	if at = skipSpace(data, at); hasByte(data, at, ']') {
		return at + 1, true
	}
	for {
		end, ok := skip(data, at, depth)
		at = skipSpace(data, end)
		switch {
		case ok && hasByte(data, at, ']'):
			return at + 1, true
		case !ok || !hasByte(data, at, ','):
			return 0, false
		}
		at = skipSpace(data, at+1)
	}
}

func hasByte(data []byte, at int, c byte) bool { return at < len(data) && data[at] == c }

func skipNumber(data []byte, at int) (int, bool) {
	if hasByte(data, at, '-') {
		at++
	}
	whole := digits(data, at)
	if whole == at || data[at] == '0' && whole > at+1 {
		return 0, false
	}
	at = whole
	if hasByte(data, at, '.') {
		part := digits(data, at+1)
		if part == at+1 {
			return 0, false
		}
		at = part
	}
	if hasByte(data, at, 'e') || hasByte(data, at, 'E') {
		at++
		if hasByte(data, at, '+') || hasByte(data, at, '-') {
			at++
		}
		power := digits(data, at)
		if power == at {
			return 0, false
		}
		at = power
	}
	return at, true
}

func digits(data []byte, at int) int {
	for at < len(data) && '0' <= data[at] && data[at] <= '9' {
		at++
	}
	return at
}

// skipText returns the end of the text whose first byte is at a position.
func skipText(data []byte, at int) (int, bool) {
	for {
		at = skipPlain(data, at)
		switch {
		case at >= len(data):
			return 0, false
		case data[at] == '"':
			return at + 1, true
		case data[at] == '\\':
			size := escape(data[at:])
			if size == 0 {
				return 0, false
			}
			at += size
		default:
			r, size := utf8.DecodeRune(data[at:])
			if data[at] < ' ' || r == utf8.RuneError && size == 1 {
				return 0, false
			}
			at += size
		}
	}
}

// skipPlain skips bytes that need no attention: ASCII from the space on without quotes and
// backslashes, eight at a time.
func skipPlain(data []byte, at int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; at+8 <= len(data); at += 8 {
		word := binary.LittleEndian.Uint64(data[at:])
		quote, backslash := word^ones*'"', word^ones*'\\'
		// A subtraction borrows from the top bit of each byte that is too small. It may
		// change higher bytes, never lower ones.
		odd := (word - ones*' ') | (quote - ones) | (backslash - ones) | word
		if odd &= tops; odd != 0 {
			return firstSpecial(data, at, bits.TrailingZeros64(odd)/8)
		}
	}
	return firstSpecial(data, at, 0)
}

// firstSpecial checks the bytes one by one.
func firstSpecial(data []byte, at, sure int) int {
	for at += sure; at < len(data); at++ {
		if c := data[at]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return at
}

// escape returns the length of the escape sequence at the start of data; 0 for none.
func escape(data []byte) int {
	const short, long = len(`\n`), len(`\u0000`)
	if len(data) < short {
		return 0
	}
	switch data[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return short
	case 'u':
		r, ok := hex(data)
		switch {
		case !ok || 0xdc00 <= r && r <= 0xdfff:
			return 0
		case r < 0xd800 || r > 0xdfff:
			return long
		}
		if low, ok := hex(data[long:]); ok && 0xdc00 <= low && low <= 0xdfff {
			return 2 * long
		}
	}
	return 0
}

// hex reads \u and four digits.
func hex(data []byte) (r rune, ok bool) {
	if len(data) < len(`\u0000`) || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	for _, c := range data[2:6] {
		r <<= 4
		switch {
		case '0' <= c && c <= '9':
			r |= rune(c - '0')
		case 'a' <= c && c <= 'f':
			r |= rune(c-'a') + 10
		case 'A' <= c && c <= 'F':
			r |= rune(c-'A') + 10
		default:
			return 0, false
		}
	}
	return r, true
}
