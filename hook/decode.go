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

// DecodeResponse reads a reply. What it returns points into data, which is not
// to be changed afterwards; the objects are as they were written, white space
// included.
//
// An error is a *MalformedError. Whatever is not clearly a reply is one: a
// missing answer must never pass for the answer "nothing".
func DecodeResponse(data []byte, d Decoding) (*Response, error) {
	r := reader{
		data:  data,
		dec:   jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(d == Loose)),
		rules: d,
		out:   &Response{},
	}
	if err := r.reply(); err != nil {
		return nil, r.malformed(err)
	}
	return r.out, nil
}

// reader walks a reply once.
type reader struct {
	data  []byte
	dec   *jsontext.Decoder
	rules Decoding
	out   *Response

	// children says that the field was there.
	children bool
	// unknown is the first field that was passed over.
	unknown string
}

func (r *reader) reply() error {
	if err := r.members(r.field); err != nil {
		return err
	}
	if err := r.end(); err != nil {
		return err
	}
	return r.complete()
}

func (r *reader) field(name []byte) error {
	switch string(name) {
	case fieldStatus:
		return r.status()
	case fieldChildren:
		return r.childList()
	case fieldResync:
		return r.resyncAfter()
	case fieldFinalized:
		return r.finalized()
	}
	return r.other(string(name))
}

func (r *reader) other(name string) error {
	if r.rules != Loose {
		return r.fault("", "unknown field%s", suggestion(name))
	}
	if r.unknown == "" {
		r.unknown = name
	}
	return r.skip()
}

// end makes sure that the reply is all there is.
func (r *reader) end() error {
	switch _, err := r.dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return &MalformedError{Err: errors.New("more than one JSON value")}
}

// complete decides what it means that there were no children.
func (r *reader) complete() error {
	switch {
	case r.children:
		return nil
	case r.rules == Strict:
		return malformedAt(fieldChildren, "required; answer [] for none")
	case r.unknown != "":
		return malformedAt(pathOf(jsontext.Pointer("").AppendToken(r.unknown)),
			"unknown field, and children is missing%s; answer [] for none", suggestion(r.unknown))
	}
	return nil
}

func (r *reader) status() error {
	value, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	switch value.Kind() {
	case '{':
		r.out.Status = r.cut(len(value))
	case 'n':
		r.out.Status = nil
	default:
		return r.fault("", "must be an object, is %s", describe(value.Kind()))
	}
	return nil
}

func (r *reader) resyncAfter() error {
	value, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	switch value.Kind() {
	case '0':
	case 'n':
		r.out.ResyncAfter = 0
		return nil
	default:
		return r.fault("", "must be a number, is %s", describe(value.Kind()))
	}
	// The grammar has been checked; out of range is an infinity, which is fine.
	seconds, _ := strconv.ParseFloat(string(value), 64)
	if seconds < 0 && r.rules == Strict {
		return r.fault("", "must not be negative")
	}
	r.out.ResyncAfter = durationOf(seconds)
	return nil
}

// durationOf keeps to what a timer can hold; a negative wish is none.
func durationOf(seconds float64) time.Duration {
	return time.Duration(min(max(seconds, 0), maxResync.Seconds()) * float64(time.Second))
}

func (r *reader) finalized() error {
	value, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	switch value.Kind() {
	case 't', 'f', 'n':
		r.out.Finalized = value.Kind() == 't'
		return nil
	}
	return r.fault("", "must be true or false, is %s", describe(value.Kind()))
}

func (r *reader) childList() error {
	if r.children {
		return r.fault("", "given twice")
	}
	r.children = true
	if r.dec.PeekKind() == 'n' && r.rules != Strict {
		return r.dec.SkipValue()
	}
	if err := r.open('[', "a list ([] for none)"); err != nil {
		return err
	}
	for r.dec.PeekKind() != ']' {
		if err := r.child(); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

func (r *reader) child() error {
	var id identity
	start, err := r.object(func(name []byte) error {
		switch string(name) {
		case "apiVersion":
			return r.text(&id.apiVersion)
		case "kind":
			return r.text(&id.kind)
		case "metadata":
			id.name = false
			return r.metadata(&id)
		}
		return r.skip()
	})
	if err != nil {
		return err
	}
	if missing := id.missing(); missing != "" {
		return r.fault(missing, "required")
	}
	end := r.dec.InputOffset()
	r.out.Children = append(r.out.Children, json.RawMessage(r.data[start:end:end]))
	return nil
}

func (r *reader) metadata(id *identity) error {
	return r.members(func(name []byte) error {
		if string(name) == "name" {
			return r.text(&id.name)
		}
		return r.skip()
	})
}

// identity is what a child must have to be found again: which of it was there.
type identity struct{ apiVersion, kind, name bool }

func (id identity) missing() string {
	switch {
	case !id.apiVersion:
		return ".apiVersion"
	case !id.kind:
		return ".kind"
	case !id.name:
		return ".metadata.name"
	}
	return ""
}

// text reads a string and notes whether it says anything.
func (r *reader) text(given *bool) error {
	value, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != '"' {
		return r.fault("", "must be a string, is %s", describe(value.Kind()))
	}
	*given = len(value) > len(`""`)
	if !*given {
		return r.fault("", "must not be empty")
	}
	return nil
}

func (r *reader) skip() error {
	_, err := r.dec.ReadValue()
	return err
}

// members calls each for every member of the object that comes next.
func (r *reader) members(each func(name []byte) error) error {
	_, err := r.object(each)
	return err
}

// object is members, and says where the object began.
func (r *reader) object(each func(name []byte) error) (start int64, err error) {
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
		return r.fault("", "must be %s, is %s", want, describe(token.Kind()))
	}
	return nil
}

// name reads a member's name without making a string of it.
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

// cut returns the last n bytes read.
func (r *reader) cut(n int) json.RawMessage {
	end := int(r.dec.InputOffset())
	return json.RawMessage(r.data[end-n : end : end])
}
