package redact

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxEscapes is how often a text may be escaped: JSON in a text of JSON, in a text of JSON, quoted in an error.
const maxEscapes = 4

// unescaped is a text without escapes, and where each of its bytes, and its end, is in the original. Without at, it is the
// original.
type unescaped struct {
	text string
	at   []int
}

// next returns the text without one more level of escapes; the zero value if it has none.
func (u unescaped) next() unescaped {
	if !strings.ContainsAny(u.text, `\%`) {
		return unescaped{}
	}
	plain, at := make([]byte, 0, len(u.text)), make([]int, 0, len(u.text)+1)
	for i := 0; i < len(u.text); {
		start, size := len(plain), 1
		if c := u.text[i]; c == '\\' || c == '%' {
			plain, size = appendUnescaped(plain, u.text[i:])
		} else {
			plain = append(plain, c)
		}
		for range len(plain) - start {
			at = append(at, u.origin(i))
		}
		i += size
	}
	if len(plain) == len(u.text) {
		return unescaped{}
	}
	return unescaped{string(plain), append(at, u.origin(len(u.text)))}
}

// origin returns where a byte is in the original.
func (u unescaped) origin(i int) int {
	if u.at == nil {
		return i
	}
	return u.at[i]
}

// simpleEscapes are the characters after a backslash, and what they stand for.
const simpleEscapes, simpleCharacters = `"\/'bfnrt`, "\"\\/'\b\f\n\r\t"

// appendUnescaped appends what the begin of a text stands for, and returns how many bytes that is.
func appendUnescaped(plain []byte, text string) (longer []byte, size int) {
	if len(text) > 1 && text[0] == '\\' {
		if at := strings.IndexByte(simpleEscapes, text[1]); at >= 0 {
			return append(plain, simpleCharacters[at]), 2
		}
	}
	if code, ok := hexAfter(text, "%", 2); ok {
		return append(plain, byte(code)), 3
	}
	if code, ok := hexAfter(text, `\x`, 2); ok {
		return append(plain, byte(code)), 4
	}
	code, ok := hexAfter(text, `\u`, 4)
	if !ok {
		return append(plain, text[0]), 1
	}
	if low, ok := hexAfter(text[6:], `\u`, 4); ok && utf16.IsSurrogate(code) {
		return utf8.AppendRune(plain, utf16.DecodeRune(code, low)), 12
	}
	return utf8.AppendRune(plain, code), 6
}

// hexAfter returns a number of hexadecimal digits after a prefix.
func hexAfter(text, prefix string, digits int) (code rune, ok bool) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok || len(rest) < digits {
		return 0, false
	}
	parsed, err := strconv.ParseUint(rest[:digits], 16, 32)
	return rune(parsed), err == nil
}
