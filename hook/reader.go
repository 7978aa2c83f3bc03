package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// reader walks a reply once. What it hands out points into data.
type reader struct {
	data     []byte
	dec      *jsontext.Decoder
	decoding Decoding

	// firstUnknown is the first field of the response itself that was passed over; nil
	// if none was.
	firstUnknown *string
	// likelyMisspelled is the first field of the response itself that was passed over and
	// may be meant for the list it is about; nil if none was.
	likelyMisspelled *string
}

func newReader(data []byte, d Decoding) reader {
	return reader{
		data:     data,
		dec:      jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(d.loose())),
		decoding: d,
	}
}

// requiredList is the field that a response is about. That it was left out on purpose
// must be certain before anything is made of its absence, unless nothing depends
// on it.
type requiredList struct {
	name     string
	isSet    bool
	required bool
}

// document reads the reply: an object, and nothing after it.
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

// checkRequired decides what it means that the list was not there.
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

// list reads the list that the response is about. A value that is no list is
// never taken for an empty one.
func (r *reader) list(l *requiredList, each func() error) error {
	l.isSet = true
	if (r.decoding != Strict || !l.required) && r.null() {
		return r.skip()
	}
	return r.elements("a list ([] for none)", each)
}

// unknownField is a field of the response itself that is none of those known.
func (r *reader) unknownField(name []byte, fields []string) error {
	if r.decoding.loose() && r.firstUnknown == nil {
		first := string(name)
		r.firstUnknown = &first
	}
	return r.rejectUnknown(name, fields)
}

// unknownListField is other, for a response that is about a list.
func (r *reader) unknownListField(l requiredList, name []byte, fields []string) error {
	if r.likelyMisspelled == nil && r.decoding.mayReplace(string(name), l.name) {
		first := string(name)
		r.likelyMisspelled = &first
	}
	return r.unknownField(name, fields)
}

// mayReplace says whether an unknown field that is passed over is taken for the list
// that a response is about, if that is missing.
func (d Decoding) mayReplace(name, list string) bool {
	return d == Loose || d == LooseOptional && suggestion(name, []string{list}) != ""
}

// rejectUnknown is a field, of whatever, that is none of those known.
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

// null says that null comes next.
func (r *reader) null() bool { return r.dec.PeekKind() == 'n' }

// rawObject reads an object and returns its bytes, nil for null.
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

// elements calls each at every item of the list that comes next.
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

// optional is elements, null being an empty list.
func (r *reader) optional(each func() error) error {
	if r.null() {
		return r.skip()
	}
	return r.elements("a list", each)
}

// members calls each for every member of the object that comes next.
func (r *reader) members(each func(name []byte) error) error {
	_, err := r.openObject(each)
	return err
}

// openObject is members, and says where the object began.
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

// name reads a member's name without making a string of it. It is good until
// something else is read.
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
