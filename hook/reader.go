package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// reader decodes a response in one pass. Returned values alias data.
type reader struct {
	data     []byte
	dec      *jsontext.Decoder
	decoding Decoding

	// firstUnknown is the first ignored top-level field; nil if there is none.
	firstUnknown *string
	// likelyMisspelled is the first ignored top-level field that may be a misspelling of
	// the required list; nil if there is none.
	likelyMisspelled *string
}

func newReader(data []byte, d Decoding) reader {
	return reader{
		data:     data,
		dec:      jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(d.loose())),
		decoding: d,
	}
}

// requiredList is the list at the core of a response, such as children. Treating a
// misspelled list as empty would delete every child, so absence is an error if required
// is set.
type requiredList struct {
	name     string
	isSet    bool
	required bool
}

// document reads a single top-level object and rejects trailing data.
func (r *reader) document(field func(name []byte) error) error {
	if err := r.members(field); err != nil {
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

// checkRequired rejects a response without the required list, as far as the decoding
// mode demands.
func (r *reader) checkRequired(l requiredList, fields []string) error {
	switch {
	case l.isSet || !l.required:
		return nil
	case r.decoding == Strict:
		return malformedAt(l.name, "required; return [] for none")
	case r.likelyMisspelled != nil:
		return malformedAt(pathOf(jsontext.Pointer("").AppendToken(*r.likelyMisspelled)),
			"unknown field, and %s is missing%s; return [] for none", l.name, suggestion(*r.likelyMisspelled, fields))
	}
	return nil
}

// list reads the required list. It rejects values of other types rather than treating
// them as empty.
func (r *reader) list(l *requiredList, each func() error) error {
	l.isSet = true
	if (r.decoding != Strict || !l.required) && r.null() {
		return r.skip()
	}
	return r.elements("a list ([] for none)", each)
}

// unknownField records and then skips or rejects an unknown top-level field.
func (r *reader) unknownField(name []byte, fields []string) error {
	if r.decoding.loose() && r.firstUnknown == nil {
		first := string(name)
		r.firstUnknown = &first
	}
	return r.rejectUnknown(name, fields)
}

// unknownListField is unknownField for responses with a required list.
func (r *reader) unknownListField(l requiredList, name []byte, fields []string) error {
	if r.likelyMisspelled == nil && r.decoding.mayReplace(string(name), l.name) {
		first := string(name)
		r.likelyMisspelled = &first
	}
	return r.unknownField(name, fields)
}

// mayReplace reports whether an ignored field may be a misspelling of the missing list.
func (d Decoding) mayReplace(name, list string) bool {
	return d == Loose || d == LooseOptional && suggestion(name, []string{list}) != ""
}

// rejectUnknown rejects an unknown field, or skips it in loose modes.
func (r *reader) rejectUnknown(name []byte, fields []string) error {
	if !r.decoding.loose() {
		return r.errorAt("", "unknown field%s", suggestion(string(name), fields))
	}
	return r.skip()
}

func (r *reader) skip() error {
	_, err := r.dec.ReadValue()
	return err
}

// null reports whether the next value is null.
func (r *reader) null() bool { return r.dec.PeekKind() == 'n' }

// rawObject returns the bytes of an object, nil for null.
func (r *reader) rawObject() (json.RawMessage, error) {
	value, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	switch value.Kind() {
	case '{':
		end := int(r.dec.InputOffset())
		return json.RawMessage(r.data[end-len(value) : end : end]), nil
	case 'n':
		return nil, nil
	}
	return nil, r.errorAt("", "must be an object, is %s", describe(value.Kind()))
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

// optional is elements, but treats null as an empty list.
func (r *reader) optional(each func() error) error {
	if r.null() {
		return r.skip()
	}
	return r.elements("a list", each)
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
