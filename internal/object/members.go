package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
