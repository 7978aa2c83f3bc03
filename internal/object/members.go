package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decoder decodes bytes. Its values are views of them. It does not detect duplicate names.
type decoder struct {
	jsontext.Decoder
	data bytes.Buffer
}

// decoders are used again: a new one for each object would double the allocations of Parse.
var decoders = sync.Pool{New: func() any { return new(decoder) }} //nolint:gochecknoglobals // Free lists are shared.

// newDecoder returns a decoder of data. The caller releases it.
func newDecoder(data []byte) *decoder {
	d := decoders.Get().(*decoder) //nolint:forcetypeassert // The pool has nothing else.
	d.data = *bytes.NewBuffer(data)
	d.Reset(&d.data, jsontext.AllowDuplicateNames(true))
	return d
}

// release makes the decoder free. It keeps no reference to the data; values that it returned stay valid.
func (d *decoder) release() {
	d.data = bytes.Buffer{}
	d.Reset(&d.data)
	decoders.Put(d)
}

// Members calls each for every member of a JSON object, in order, with the quoted name and the
// value. Both are views of data. It does not detect duplicate names.
func Members(data []byte, each func(quoted, value []byte) error) error {
	return container(data, '{', func(dec *jsontext.Decoder) error {
		name, err := dec.ReadValue()
		if err != nil {
			return err
		}
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		return each(name, value)
	})
}

// Elements calls each for every element of a JSON list, in order, with a view of data.
func Elements(data []byte, each func(value []byte) error) error {
	return container(data, '[', func(dec *jsontext.Decoder) error {
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		return each(value)
	})
}

// ReadList reads a list of objects, and calls each for every item with data that is valid until the
// next one. It returns the metadata of the list.
func ReadList(from io.Reader, each func(data []byte) error) (metadata metav1.ListMeta, err error) {
	dec := jsontext.NewDecoder(from, jsontext.AllowDuplicateNames(true))
	switch err := open(dec, '{'); {
	case errors.Is(err, io.EOF):
		return metadata, io.ErrUnexpectedEOF
	case err != nil:
		return metadata, err
	}
	err = readItems(dec, func() error {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		switch name.String() {
		case "metadata":
			value, err := dec.ReadValue()
			if err != nil {
				return err
			}
			return json.Unmarshal(value, &metadata)
		case "items":
			return readElements(dec, each)
		}
		return dec.SkipValue()
	})
	return metadata, err
}

// readElements calls each for every element of the next list, which may be null.
func readElements(dec *jsontext.Decoder, each func(value []byte) error) error {
	if dec.PeekKind() == 'n' {
		return dec.SkipValue()
	}
	if err := open(dec, '['); err != nil {
		return err
	}
	return readItems(dec, func() error {
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		return each(value)
	})
}

// container reads an object or a list, after which nothing may follow.
func container(data []byte, kind jsontext.Kind, each func(*jsontext.Decoder) error) error {
	from := newDecoder(data)
	defer from.release()
	dec := &from.Decoder
	switch err := open(dec, kind); {
	case errors.Is(err, io.EOF):
		return errors.New("empty")
	case err != nil:
		return withFieldPath(dec, err)
	}
	if err := readItems(dec, func() error { return each(dec) }); err != nil {
		return err
	}
	return expectEnd(dec)
}

// open reads the beginning of an object or a list.
func open(dec *jsontext.Decoder, kind jsontext.Kind) error {
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != kind {
		return fmt.Errorf("must be %s, is %s", kindName(kind), kindName(token.Kind()))
	}
	return nil
}

// readItems calls each for the items of an object or a list, and reads its end.
func readItems(dec *jsontext.Decoder, each func() error) error {
	for {
		switch dec.PeekKind() {
		case 0, '}', ']':
			_, err := dec.ReadToken()
			return err
		}
		if err := each(); err != nil {
			return err
		}
	}
}

func expectEnd(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errTrailingData
	}
	return nil
}

// Unquoted returns the text of a JSON string, as a view unless it has escapes.
func Unquoted(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	// The decoder has checked the string.
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

// TooManyValuesError means that a JSON text has more values than the limit.
type TooManyValuesError struct{ Limit int }

func (e *TooManyValuesError) Error() string {
	return fmt.Sprintf("has more than %d JSON values", e.Limit)
}

// LimitValues returns a *TooManyValuesError if data has more than limit JSON values: objects,
// lists and scalars at all depths, without member names. It protects decoding of untrusted
// data, since a size in bytes does not bound a tree: an empty object of two bytes takes fifty
// times as much.
//
// It reads data at most once, without allocations, and does not check that data is JSON.
func LimitValues(data []byte, limit int) error {
	// Each value takes a byte, and another one that separates or closes it.
	if len(data)/2 < limit {
		return nil
	}
	if countValues(data, limit) > limit {
		return &TooManyValuesError{Limit: limit}
	}
	return nil
}

// countValues counts until there are more than enough: one value for the whole, one per comma,
// and one per container that is not empty.
func countValues(data []byte, enough int) int {
	count := 1
	for at := 0; at < len(data) && count <= enough; at++ {
		switch data[at] {
		case ',':
			count++
		case '{', '[':
			if next := bytes.TrimLeft(data[at+1:], " \t\r\n"); len(next) > 0 && next[0] != '}' && next[0] != ']' {
				count++
			}
		case '"':
			at = closingQuote(data, at+1)
		}
	}
	return count
}

// Indent returns a JSON text with line breaks and indentation, and true. It returns data itself if that is no
// JSON, or is nested so deep that indentation would be most of the text: it grows with the square of the
// depth, which hooks choose.
func Indent(data []byte) ([]byte, bool) {
	var text bytes.Buffer
	if indentation(data) > 1<<20+8*len(data) || json.Indent(&text, data, "", indent) != nil {
		return data, false
	}
	return text.Bytes(), true
}

const indent = "  "

// indentation returns how much longer Indent makes a compact text.
func indentation(data []byte) (size int) {
	depth := 0
	for at := 0; at < len(data); at++ {
		switch data[at] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
		case '"':
			at = closingQuote(data, at+1)
			continue
		default:
			continue
		}
		size += 1 + len(indent)*depth
	}
	return size
}

// closingQuote returns the end of the string whose first byte is at a position, or of data.
func closingQuote(data []byte, at int) int {
	for at < len(data) && data[at] != '"' {
		if data[at] == '\\' {
			at++
		}
		at++
	}
	return at
}

// WholeNumbers returns JSON in which whole numbers within the range of int64 are integers: 2.0 becomes 2, and 1e3
// becomes 1000. Some languages have one type of number only, and the API server accepts no such text for an integer. It
// returns data itself if nothing changes.
func WholeNumbers(data []byte) []byte {
	var out []byte
	copied := 0
	for at := 0; at < len(data); at++ {
		switch c := data[at]; {
		case c == '"':
			at = closingQuote(data, at+1)
		case c == '-' || c >= '0' && c <= '9':
			end := at + len(data[at:]) - len(bytes.TrimLeft(data[at:], "+-.0123456789eE"))
			if integer, is := wholeNumber(data[at:end]); is {
				out = append(append(out, data[copied:at]...), integer...)
				copied = end
			}
			at = end - 1
		}
	}
	if copied == 0 {
		return data
	}
	return append(out, data[copied:]...)
}

// maxExponent is larger than any exponent of an int64 that is worth writing out.
const maxExponent = 100

// wholeNumber returns a number with a fraction or an exponent as an integer, if it is one.
func wholeNumber(number []byte) (string, bool) {
	if !bytes.ContainsAny(number, ".eE") {
		return "", false
	}
	mantissa, power, _ := strings.Cut(strings.ToLower(string(number)), "e")
	digits, fraction, _ := strings.Cut(mantissa, ".")
	exponent := 0
	if power != "" {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil || max(exponent, -exponent) > maxExponent {
			return "", false
		}
	}
	fraction = strings.TrimRight(fraction, "0")
	digits, exponent = digits+fraction, exponent-len(fraction)
	if exponent < 0 {
		kept := strings.TrimRight(digits, "0")
		if zeros := len(digits) - len(kept); kept != "" && kept != "-" && zeros < -exponent {
			return "", false
		}
		digits = digits[:max(len(digits)+exponent, 0)]
	} else {
		digits += strings.Repeat("0", exponent)
	}
	if digits == "" || digits == "-" {
		digits = "0"
	}
	whole, err := strconv.ParseInt(digits, 10, 64)
	return strconv.FormatInt(whole, 10), err == nil
}
