package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// reader decodes a response in one pass. Returned values alias data.
type reader struct {
	data     []byte
	dec      *jsontext.Decoder
	decoding Decoding

	// hasKnownField reports whether the response has any known field, and unknown are its
	// ignored fields.
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

// field is a field of an object, and reads its value.
type field struct {
	name string
	read func() error
}

func namesOf(fields []field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

// document reads a single top-level object with these fields and rejects trailing data.
func (r *reader) document(fields []field) error {
	err := r.members(func(name []byte) error {
		known, err := r.readField(name, fields)
		if known || err != nil {
			r.hasKnownField = true
			return err
		}
		r.unknown = append(r.unknown, string(name))
		return r.skip()
	})
	if err != nil {
		return err
	}
	switch _, err := r.dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return &MalformedError{Err: errors.New("more than one JSON value")}
}

// fields reads an object with these fields. It skips unknown ones in loose modes.
func (r *reader) fields(fields ...field) error {
	_, err := r.fieldsAndUnknown(fields)
	return err
}

// fieldsAndUnknown is fields and returns the last unknown field.
func (r *reader) fieldsAndUnknown(fields []field) (unknown string, err error) {
	err = r.members(func(name []byte) error {
		known, err := r.readField(name, fields)
		if known || err != nil {
			return err
		}
		unknown = string(name)
		return r.skip()
	})
	return unknown, err
}

// readField reads the value of a known field. It rejects an unknown one, or leaves it to
// the caller in loose modes.
func (r *reader) readField(name []byte, fields []field) (known bool, err error) {
	for _, f := range fields {
		if f.name == string(name) {
			return true, f.read()
		}
	}
	if r.decoding.loose() {
		return false, nil
	}
	return false, r.errorAt("", "unknown field%s", suggestion(string(name), namesOf(fields)))
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
		if r.decoding == Loose || r.decoding == LooseOptional && suggestion(name, []string{l.name}) != "" {
			return malformedAt(topLevelPath(name), "unknown field, and %s is missing%s; return [] for none",
				l.name, suggestion(name, namesOf(fields)))
		}
	}
	return nil
}

// required reads the required list. It rejects values of other types rather than treating
// them as empty.
func required[T any](r *reader, l *requiredList, into *[]T, item func() (T, error)) func() error {
	return func() error {
		*into, l.isSet = nil, true
		if (r.decoding != Strict || !l.required) && r.null() {
			return r.skip()
		}
		return r.elements("a list ([] for none)", appendTo(into, item))
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
func list[T any](r *reader, into *[]T, item func() (T, error)) func() error {
	return optional(r, into, func() error { return r.elements("a list", appendTo(into, item)) })
}

// maxListItems limits the events, and the conditions, of one response. More than that is
// a bug in the hook and would flood the API server.
const maxListItems = 100

// limitedList is list for at most maxListItems.
func limitedList[T any](r *reader, into *[]T, item func() (T, error)) func() error {
	return list(r, into, func() (T, error) {
		if len(*into) == maxListItems {
			var none T
			return none, r.errorAt("", "more than %d items", maxListItems) // At the last permitted item.
		}
		return item()
	})
}

func appendTo[T any](into *[]T, item func() (T, error)) func() error {
	return func() error {
		one, err := item()
		*into = append(*into, one)
		return err
	}
}

// elements calls each at every item of the next value, a list.
func (r *reader) elements(want string, each func() error) error {
	if err := r.open('[', want); err != nil {
		return err
	}
	for r.dec.PeekKind() != ']' {
		if err := each(); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
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
		name, err := r.name()
		if err != nil {
			return 0, err
		}
		if err := each(name); err != nil {
			return 0, err
		}
	}
	_, err = r.dec.ReadToken()
	return start, err
}

func (r *reader) open(kind jsontext.Kind, want string) error {
	token, err := r.dec.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != kind {
		return r.errorAt("", "must be %s, is %s", want, describe(token.Kind()))
	}
	return nil
}

// name reads a field name without allocating a string. The next read invalidates it.
func (r *reader) name() ([]byte, error) {
	quoted, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
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

// raw reads the bytes of an object, nil for null.
func (r *reader) raw(into *json.RawMessage) func() error {
	return func() error {
		value, err := r.dec.ReadValue()
		switch {
		case err != nil:
			return err
		case value.Kind() == '{':
			*into = r.since(r.dec.InputOffset() - int64(len(value)))
		case value.Kind() == 'n':
			*into = nil
		default:
			return r.errorAt("", "must be an object, is %s", describe(value.Kind()))
		}
		return nil
	}
}

// since returns the bytes from an offset to the end of the value read last.
func (r *reader) since(start int64) json.RawMessage {
	end := r.dec.InputOffset()
	return json.RawMessage(r.data[start:end:end])
}

// text reads a string; null leaves the target unchanged.
func (r *reader) text(into *string) func() error {
	return func() (err error) {
		if r.null() {
			return r.skip()
		}
		*into, err = r.string()
		return err
	}
}

// string reads a string and rejects null.
func (r *reader) string() (string, error) {
	quoted, err := r.quotedString()
	if err != nil {
		return "", err
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	return string(text), err
}

// quotedString returns a string with its quotes. The next read invalidates it.
func (r *reader) quotedString() ([]byte, error) {
	value, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	if value.Kind() != '"' {
		return nil, r.errorAt("", "must be a string, is %s", describe(value.Kind()))
	}
	return value, nil
}

// given is the text at a path below the value read last.
type given struct{ below, text string }

// require rejects a value without one of these texts.
func (r *reader) require(all ...given) error {
	for _, one := range all {
		if one.text == "" {
			return r.errorAt(one.below, "required")
		}
	}
	return nil
}

// boolean reads true or false; null means false.
func (r *reader) boolean(into *bool) func() error {
	return func() error {
		value, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		switch value.Kind() {
		case 't', 'f', 'n':
			*into = value.Kind() == 't'
			return nil
		}
		return r.errorAt("", "must be true or false, is %s", describe(value.Kind()))
	}
}

// seconds reads a delay in seconds; null means none.
func (r *reader) seconds(into *time.Duration) func() error {
	return func() error {
		value, err := r.dec.ReadValue()
		switch {
		case err != nil:
			return err
		case value.Kind() == 'n':
			*into = 0
			return nil
		case value.Kind() != '0':
			return r.errorAt("", "must be a number, is %s", describe(value.Kind()))
		}
		// The decoder checked the syntax. ParseFloat returns infinity when out of range,
		// which is clamped.
		seconds, _ := strconv.ParseFloat(string(value), 64)
		if seconds < 0 && r.decoding == Strict {
			return r.errorAt("", "must not be negative")
		}
		*into = time.Duration(min(max(seconds, 0), maxDelay.Seconds()) * float64(time.Second))
		return nil
	}
}

// maxDelay clamps delays, so that adding one to a time cannot overflow.
const maxDelay = 365 * 24 * time.Hour
