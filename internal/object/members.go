package object

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fieldPath converts a JSON pointer to a field path: "/spec/containers/0/image" to "spec.containers[0].image".
func fieldPath(pointer jsontext.Pointer) string {
	var path strings.Builder
	for token := range pointer.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil && path.Len() > 0 {
			path.WriteString("[" + token + "]")
			continue
		}
		if path.Len() > 0 {
			path.WriteByte('.')
		}
		path.WriteString(token)
	}
	return path.String()
}

// ParsePath parses a field path: names with dots between them, and names that contain dots in
// brackets and quotes, as in metadata.annotations["example.com/note"]. It has no list items.
func ParsePath(text string) ([]string, error) {
	var path []string
	for rest := text; rest != ""; {
		name, after, err := firstName(rest, len(path) == 0)
		if err != nil {
			return nil, fmt.Errorf(`%q is no field path: %w; separate names by dots, such as spec.currency, and quote names that contain dots, such as metadata.annotations["example.com/note"]`, text, err)
		}
		path, rest = append(path, name), after
	}
	switch {
	case len(path) == 0:
		return nil, errors.New("field path is empty; an example is spec.currency")
	case len(path) > 3 && path[0] == "metadata" && (path[1] == "labels" || path[1] == "annotations"):
		return nil, fmt.Errorf(`%q leads into a string; quote a name that contains dots: %s.%s["example.com/note"]`, text, path[0], path[1])
	}
	return path, nil
}

// JoinPath appends a member to a field path.
func JoinPath(path, name string) string {
	switch {
	case name == "" || strings.ContainsAny(name, "./[]"):
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

func itemPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func firstName(text string, first bool) (name, rest string, err error) {
	if strings.HasPrefix(text, "[") {
		return quotedName(text)
	}
	if !first {
		var dotted bool
		if text, dotted = strings.CutPrefix(text, "."); !dotted {
			return "", "", fmt.Errorf("%q follows a bracket", text)
		}
	}
	end := strings.IndexAny(text, ".[]")
	if end < 0 {
		end = len(text)
	}
	if end == 0 {
		return "", "", errors.New("a name is missing")
	}
	return text[:end], text[end:], nil
}

func quotedName(text string) (name, rest string, err error) {
	if len(text) < 2 || text[1] != '"' && text[1] != '\'' {
		return "", "", errors.New("list items cannot be selected")
	}
	name, rest, _ = strings.Cut(text[2:], text[1:2])
	rest, closed := strings.CutPrefix(rest, "]")
	if !closed || name == "" {
		return "", "", errors.New("a bracket is not closed, or empty")
	}
	return name, rest, nil
}

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
		return readValue(dec, func(value []byte) error { return each(name, value) })
	})
}

// Elements calls each for every element of a JSON list, in order, with a view of data.
func Elements(data []byte, each func(value []byte) error) error {
	return container(data, '[', func(dec *jsontext.Decoder) error { return readValue(dec, each) })
}

// container reads an object or a list, after which nothing may follow.
func container(data []byte, kind jsontext.Kind, each func(*jsontext.Decoder) error) error {
	from := newDecoder(data)
	defer from.release()
	dec := &from.Decoder
	switch err := readItems(dec, kind, func() error { return each(dec) }); {
	case errors.Is(err, io.EOF):
		return errors.New("empty")
	case err != nil:
		return err
	}
	return expectEnd(dec)
}

// ReadList reads a list of objects, and calls each for every item with data that is valid until the
// next one. It returns the metadata of the list.
func ReadList(from io.Reader, each func(data []byte) error) (metadata metav1.ListMeta, err error) {
	dec := jsontext.NewDecoder(from, jsontext.AllowDuplicateNames(true))
	err = readItems(dec, '{', func() error {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		switch name.String() {
		case "metadata":
			return readValue(dec, func(value []byte) error { return json.Unmarshal(value, &metadata) })
		case "items":
			return readItemsOrNull(dec, '[', func() error { return readValue(dec, each) })
		}
		return dec.SkipValue()
	})
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return metadata, err
}

// readValue calls what to do with the next value.
func readValue(dec *jsontext.Decoder, do func(value []byte) error) error {
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	return do(value)
}

// readItemsOrNull is readItems, but the object or list may be null.
func readItemsOrNull(dec *jsontext.Decoder, kind jsontext.Kind, each func() error) error {
	if dec.PeekKind() == 'n' {
		_, err := dec.ReadValue()
		return err
	}
	return readItems(dec, kind, each)
}

func kindName(kind jsontext.Kind) string {
	names := map[jsontext.Kind]string{'{': "an object", '[': "a list", '"': "a string", '0': "a number"}
	return cmp.Or(names[kind], kind.String())
}

// readItems calls each for the items of the next object or list, and reads its end.
func readItems(dec *jsontext.Decoder, kind jsontext.Kind, each func() error) error {
	token, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != kind {
		return fmt.Errorf("must be %s, is %s", kindName(kind), kindName(token.Kind()))
	}
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

var errTrailingData = errors.New("more than one JSON value")

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

// LimitValues returns an error if data has more than limit JSON values: objects, lists and scalars at all depths,
// without member names. It protects decoding of untrusted data, since a size in bytes does not bound a tree: an empty
// object of two bytes takes fifty times as much.
//
// It reads data at most once, without allocations, and does not check that data is JSON.
func LimitValues(data []byte, limit int) error {
	// Each value takes a byte, and another one that separates or closes it.
	if len(data)/2 >= limit && countValues(data, limit) > limit {
		return fmt.Errorf("has more than %d JSON values", limit)
	}
	return nil
}

// countValues counts until there are enough: one for the whole, one per comma, and one per container that is not empty.
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

// maxNumber limits the exponent and the length of numbers that are worth computing: more is no int64, or pointless.
const maxNumber = 100

// wholeNumber returns a number with a fraction or an exponent as an integer, if it is one.
func wholeNumber(number []byte) (string, bool) {
	if !bytes.ContainsAny(number, ".eE") || len(number) > maxNumber {
		return "", false
	}
	_, power, _ := strings.Cut(strings.ToLower(string(number)), "e")
	if exponent, err := strconv.Atoi(cmp.Or(power, "0")); err != nil || max(exponent, -exponent) > maxNumber {
		return "", false
	}
	value, valid := new(big.Rat).SetString(string(number))
	if !valid || !value.IsInt() || !value.Num().IsInt64() {
		return "", false
	}
	return value.Num().String(), true
}
