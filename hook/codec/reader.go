package codec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// reader decodes a response in one pass. Returned values alias data.
type reader struct {
	data     []byte
	dec      *jsontext.Decoder
	decoding Decoding

	// hasKnownField reports whether the response has any known field, and unknown are those
	// that are skipped.
	hasKnownField bool
	unknown       []string
}

func newReader(data []byte, d Decoding) *reader {
	data = WithoutMark(data)
	return &reader{
		data:     data,
		dec:      jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(d.loose())),
		decoding: d,
	}
}

// field is a field of an object, and where its value goes: a *string, a nonEmpty one, a *bool, a *time.Duration for
// seconds, a *json.RawMessage for an object, or a func() error that reads it.
type field struct {
	name string
	into any
}

// nonEmpty is a text that is required.
type nonEmpty struct{ *string }

// read reads the next value into the target of a field.
func (r *reader) read(into any) error {
	switch into := into.(type) {
	case *string:
		return r.text(into)
	case nonEmpty:
		return r.text(into.string)
	case *bool:
		return r.boolean(into)
	case *time.Duration:
		return r.seconds(into)
	case *json.RawMessage:
		return r.raw(into)
	}
	return into.(func() error)()
}

// document reads a single top-level object with these fields and rejects trailing data.
func (r *reader) document(fields []field) (err error) {
	if r.unknown, err = r.fieldsAndUnknown(fields); err != nil {
		return err
	}
	switch _, err := r.dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return malformedAt("", "more than one JSON value")
}

// fields reads an object with these fields. It rejects unknown ones, or skips them in loose modes.
func (r *reader) fields(fields ...field) error {
	_, err := r.fieldsAndUnknown(fields)
	return err
}

// fieldsAndUnknown is fields and returns those that it skips.
func (r *reader) fieldsAndUnknown(fields []field) (unknown []string, err error) {
	err = r.members(func(name []byte) error {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == string(name) })
		switch {
		case i >= 0:
			r.hasKnownField = true
			return r.read(fields[i].into)
		case !r.decoding.loose():
			return r.errorAt("", "unknown field%s", suggestion(string(name), fields))
		}
		unknown = append(unknown, string(name))
		return r.skip()
	})
	for _, f := range fields {
		if text, is := f.into.(nonEmpty); err == nil && is && *text.string == "" {
			err = r.errorAt("."+f.name, "required")
		}
	}
	return unknown, err
}

// suggestion returns `; did you mean "children"?` with the first similar field, or "".
func suggestion(name string, fields []field) string {
	for _, f := range fields {
		if resembles(name, f.name) || isOtherType(name, f.name) {
			return fmt.Sprintf("; did you mean %q?", f.name)
		}
	}
	return ""
}

// requiredList is the list at the core of a response, such as children. Treating a
// misspelled list as empty would delete every child, so absence is an error if required
// is set.
type requiredList struct {
	name     string
	isSet    bool
	required bool
}

// documentWithList is document, and rejects a response without the required list, as far
// as the decoding mode demands.
func (r *reader) documentWithList(l *requiredList, fields []field) error {
	err := r.document(fields)
	switch {
	case err != nil || l.isSet || !l.required:
		return err
	case r.decoding == Strict:
		return malformedAt(l.name, "required; return [] for none")
	}
	for _, name := range r.unknown {
		if r.decoding == Loose || r.decoding == LooseOptional && suggestion(name, []field{{name: l.name}}) != "" {
			return r.errorAt(fieldPath(name), "unknown field, and %s is missing%s; return [] for none", l.name, suggestion(name, fields))
		}
	}
	return nil
}

// required reads the required list. It rejects values of other types rather than treating
// them as empty.
func required[T any](r *reader, l *requiredList, into *[]T, item func(*T) error) func() error {
	return func() error {
		*into, l.isSet = nil, true
		if (r.decoding != Strict || !l.required) && r.null() {
			return r.skip()
		}
		return elements(r, "a list ([] for none)", into, item)
	}
}

// optional reads a value that may be null. It empties the target first, since of two fields the last one counts.
func optional[T any](r *reader, into *T, read func() error) func() error {
	return func() error {
		*into = *new(T)
		if r.null() {
			return r.skip()
		}
		return read()
	}
}

// list reads a list; null means an empty one.
func list[T any](r *reader, into *[]T, item func(*T) error) func() error {
	return optional(r, into, func() error { return elements(r, "a list", into, item) })
}

// maxListItems limits the events, and the conditions, of one response. More than that is
// a bug in the hook and would flood the API server.
const maxListItems = 100

// limitedList is list for at most maxListItems.
func limitedList[T any](r *reader, into *[]T, item func(*T) error) func() error {
	return list(r, into, func(one *T) error {
		if len(*into) > maxListItems {
			return r.errorAt("", "more than %d items", maxListItems) // At the last permitted item.
		}
		return item(one)
	})
}

// elements appends the items of the next value, a list.
func elements[T any](r *reader, want string, into *[]T, item func(*T) error) error {
	if err := r.open('[', want); err != nil {
		return err
	}
	for r.dec.PeekKind() != ']' {
		*into = append(*into, *new(T))
		if err := item(&(*into)[len(*into)-1]); err != nil {
			return err
		}
	}
	return r.close()
}

// members calls each for every field of the next value, an object.
func (r *reader) members(each func(name []byte) error) error {
	_, err := r.openObject(each)
	return err
}

// openObject is members and returns the object's offset.
func (r *reader) openObject(each func(name []byte) error) (start int64, err error) {
	if err := r.open('{', "an object"); err != nil {
		return 0, err
	}
	start = r.dec.InputOffset() - 1
	for r.dec.PeekKind() != '}' {
		name, err := r.fieldName()
		if err != nil {
			return 0, err
		}
		if err := each(name); err != nil {
			return 0, err
		}
	}
	return start, r.close()
}

func (r *reader) open(kind jsontext.Kind, want string) error {
	token, err := r.dec.ReadToken()
	if err == nil && token.Kind() != kind {
		return r.mistyped(want, token.Kind())
	}
	return err
}

func (r *reader) close() error {
	_, err := r.dec.ReadToken()
	return err
}

// fieldName reads a field name without allocating a string. The next read invalidates it.
func (r *reader) fieldName() ([]byte, error) {
	quoted, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	return unquote(quoted)
}

func unquote(quoted []byte) ([]byte, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	return jsontext.AppendUnquote(nil, quoted)
}

// null reports whether the next value is null.
func (r *reader) null() bool { return r.dec.PeekKind() == 'n' }

func (r *reader) skip() error {
	_, err := r.dec.ReadValue()
	return err
}

// value reads a value of one of these kinds. The next read invalidates it.
func (r *reader) value(want string, kinds ...jsontext.Kind) (jsontext.Value, error) {
	value, err := r.dec.ReadValue()
	if err == nil && !slices.Contains(kinds, value.Kind()) {
		return nil, r.mistyped(want, value.Kind())
	}
	return value, err
}

// raw reads the bytes of an object, nil for null.
func (r *reader) raw(into *json.RawMessage) error {
	value, err := r.value("an object", '{', 'n')
	*into = nil
	if value.Kind() == '{' {
		*into = r.since(r.dec.InputOffset() - int64(len(value)))
	}
	return err
}

// since returns the bytes from an offset to the end of the value read last.
func (r *reader) since(start int64) json.RawMessage {
	end := r.dec.InputOffset()
	return json.RawMessage(r.data[start:end:end])
}

// text reads a string; null leaves the target unchanged.
func (r *reader) text(into *string) error {
	if r.null() {
		return r.skip()
	}
	return r.nonNullText(into)
}

// nonNullText reads a string and rejects null.
func (r *reader) nonNullText(into *string) error {
	quoted, err := r.value("a string", '"')
	if err != nil {
		return err
	}
	text, err := unquote(quoted)
	*into = string(text)
	return err
}

// given tells whether a field has a value.
type given struct {
	field string
	is    bool
}

// require rejects a value without one of these fields below it.
func (r *reader) require(all ...given) error {
	for _, one := range all {
		if !one.is {
			return r.errorAt(one.field, "required")
		}
	}
	return nil
}

// present returns the names of the fields that have a value.
func present(all ...given) (fields []string) {
	for _, one := range all {
		if one.is {
			fields = append(fields, one.field)
		}
	}
	return fields
}

// boolean reads true or false; null means false.
func (r *reader) boolean(into *bool) error {
	value, err := r.value("true or false", 't', 'f', 'n')
	*into = value.Kind() == 't'
	return err
}

// seconds reads a delay in seconds; null means none.
func (r *reader) seconds(into *time.Duration) error {
	value, err := r.value("a number", '0', 'n')
	if err != nil {
		return err
	}
	// The decoder checked the syntax. ParseFloat returns infinity when out of range, which is clamped, and 0 for null.
	seconds, _ := strconv.ParseFloat(string(value), 64)
	if seconds < 0 && r.decoding == Strict {
		return r.errorAt("", "must not be negative")
	}
	*into = time.Duration(min(max(seconds, 0), maxDelay.Seconds()) * float64(time.Second))
	return nil
}

// maxDelay clamps delays, so that adding one to a time cannot overflow.
const maxDelay = 365 * 24 * time.Hour

// mistyped is the error of a value of another kind.
func (r *reader) mistyped(want string, kind jsontext.Kind) error {
	return r.errorAt("", "must be %s, is %s", want, cmp.Or(kindNames[kind], "an object"))
}

var kindNames = map[jsontext.Kind]string{'n': "null", 't': "a boolean", 'f': "a boolean", '"': "a string", '0': "a number", '[': "a list"}

// errorAt returns a MalformedError for the value read last, or for a path below it.
func (r *reader) errorAt(below, format string, args ...any) error {
	return malformedAt(pathOf(r.dec.StackPointer())+below, format, args...)
}

// malformed converts an error of the JSON decoder to a MalformedError.
func (r *reader) malformed(err error) error {
	if errors.Is(err, io.EOF) {
		return malformedAt("", "empty")
	}
	syntax, is := errors.AsType[*jsontext.SyntacticError](err)
	if !is {
		return err
	}
	path := pathOf(syntax.JSONPointer)
	switch {
	case errors.Is(syntax.Err, jsontext.ErrDuplicateName):
		return malformedAt(path, "given twice")
	case errors.Is(syntax.Err, io.ErrUnexpectedEOF):
		return malformedAt(path, "cut short after %d bytes", len(r.data))
	}
	return malformedAt(path, "%w at byte %d", syntax.Err, syntax.ByteOffset)
}
