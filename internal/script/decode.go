package script

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Values makes the values of a language. Text is valid until Decode returns, if nothing else is said.
type Values[V any] interface {
	Null() V
	Bool(is bool) V
	// Number gets the number as it is written.
	Number(text []byte) (V, error)
	// String gets UTF-8; half of a surrogate pair is the three bytes that its code point would have.
	String(text []byte) (V, error)
	Array() (V, error)
	Append(array V, index int, element V) error
	Object() (V, error)
	Set(object V, key []byte, v V) error
}

// ErrTooDeep means that JSON has too many levels.
var ErrTooDeep = errors.New("too many levels")

// Decode makes a value of JSON that this program has encoded: it accepts some text that is not JSON. It changes the text,
// since strings are unescaped where they are.
func Decode[V any](text []byte, levels int, values Values[V]) (v V, err error) {
	d := &decoder[V]{values: values, text: text, levels: levels}
	if v, err = d.value(); err != nil {
		return v, err
	}
	d.skipSpace()
	if d.at < len(text) {
		return v, d.unexpected()
	}
	return v, nil
}

type decoder[V any] struct {
	values Values[V]
	text   []byte
	at     int
	levels int
}

func (d *decoder[V]) unexpected() error {
	if d.at >= len(d.text) {
		return errors.New("the JSON ends too early")
	}
	return fmt.Errorf("unexpected %q at offset %d of the JSON", d.text[d.at], d.at)
}

func (d *decoder[V]) skipSpace() {
	for d.at < len(d.text) && isSpace(d.text[d.at]) {
		d.at++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// next reports whether the next character is c, and skips it.
func (d *decoder[V]) next(c byte) bool {
	d.skipSpace()
	if d.at < len(d.text) && d.text[d.at] == c {
		d.at++
		return true
	}
	return false
}

func (d *decoder[V]) value() (v V, err error) {
	d.skipSpace()
	if d.at == len(d.text) {
		return v, d.unexpected()
	}
	switch d.text[d.at] {
	case '{':
		return d.object()
	case '[':
		return d.array()
	case '"':
		text, err := d.string()
		if err != nil {
			return v, err
		}
		return d.values.String(text)
	case 't':
		return d.values.Bool(true), d.word("true")
	case 'f':
		return d.values.Bool(false), d.word("false")
	case 'n':
		return d.values.Null(), d.word("null")
	}
	return d.number()
}

func (d *decoder[V]) word(word string) error {
	if end := d.at + len(word); end <= len(d.text) && string(d.text[d.at:end]) == word {
		d.at = end
		return nil
	}
	return d.unexpected()
}

func (d *decoder[V]) number() (v V, err error) {
	start := d.at
	for d.at < len(d.text) && isOfNumber(d.text[d.at]) {
		d.at++
	}
	if start == d.at {
		return v, d.unexpected()
	}
	return d.values.Number(d.text[start:d.at])
}

func isOfNumber(c byte) bool {
	return '0' <= c && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

func (d *decoder[V]) object() (object V, err error) {
	if object, err = d.values.Object(); err != nil {
		return object, err
	}
	return object, d.items('}', func(int) error {
		d.skipSpace()
		if d.at == len(d.text) || d.text[d.at] != '"' {
			return d.unexpected()
		}
		key, err := d.string()
		if err != nil {
			return err
		}
		if !d.next(':') {
			return d.unexpected()
		}
		v, err := d.value()
		if err != nil {
			return err
		}
		return d.values.Set(object, key, v)
	})
}

func (d *decoder[V]) array() (array V, err error) {
	if array, err = d.values.Array(); err != nil {
		return array, err
	}
	return array, d.items(']', func(i int) error {
		v, err := d.value()
		if err != nil {
			return err
		}
		return d.values.Append(array, i, v)
	})
}

// items reads the items of an object or an array.
func (d *decoder[V]) items(end byte, item func(i int) error) error {
	d.at++
	d.levels--
	if d.levels < 0 {
		return ErrTooDeep
	}
	defer func() { d.levels++ }()
	if d.next(end) {
		return nil
	}
	for i := 0; ; i++ {
		if err := item(i); err != nil {
			return err
		}
		switch {
		case d.next(','):
		case d.next(end):
			return nil
		default:
			return d.unexpected()
		}
	}
}

// string reads a string, unescaped.
func (d *decoder[V]) string() ([]byte, error) {
	d.at++
	start := d.at
	for d.at < len(d.text) {
		switch d.text[d.at] {
		case '"':
			d.at++
			return d.text[start : d.at-1], nil
		case '\\':
			return d.escapedString(start)
		}
		d.at++
	}
	return nil, d.unexpected()
}

// escapedString reads on from the first backslash. What is unescaped is never longer.
func (d *decoder[V]) escapedString(start int) ([]byte, error) {
	unescaped := d.text[start:d.at]
	for d.at < len(d.text) {
		c := d.text[d.at]
		d.at++
		switch c {
		case '"':
			return unescaped, nil
		case '\\':
			var err error
			if unescaped, err = d.unescape(unescaped); err != nil {
				return nil, err
			}
		default:
			unescaped = append(unescaped, c)
		}
	}
	return nil, d.unexpected()
}

// unescape appends what follows a backslash.
func (d *decoder[V]) unescape(to []byte) ([]byte, error) {
	if d.at == len(d.text) {
		return nil, d.unexpected()
	}
	c := d.text[d.at]
	d.at++
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return d.unescapeRune(to)
	default:
		d.at--
		return nil, d.unexpected()
	}
	return append(to, c), nil
}

func (d *decoder[V]) unescapeRune(to []byte) ([]byte, error) {
	r, err := d.hex()
	if err != nil || !utf16.IsSurrogate(r) {
		return utf8.AppendRune(to, r), err
	}
	after := d.at
	if d.word(`\u`) == nil {
		low, err := d.hex()
		if err != nil {
			return nil, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return utf8.AppendRune(to, pair), nil
		}
		d.at = after
	}
	return append(to, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F), nil
}

// hex reads four digits.
func (d *decoder[V]) hex() (rune, error) {
	const digits = 4
	if d.at+digits > len(d.text) {
		d.at = len(d.text)
		return 0, d.unexpected()
	}
	r, err := strconv.ParseUint(string(d.text[d.at:d.at+digits]), 16, 16)
	if err != nil {
		return 0, d.unexpected()
	}
	d.at += digits
	return rune(r), nil
}
