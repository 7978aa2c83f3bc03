package object

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Members calls each for every member of a JSON object, in order, with the quoted name and the
// value. Both are views of data. It does not detect duplicate names.
func Members(data []byte, each func(quoted, value []byte) error) error {
	scan, err := openContainer(data, '{')
	if err != nil {
		return err
	}
	for scan.PeekKind() == '"' {
		name, err := scan.ReadValue()
		if err != nil {
			return syntaxError(data)
		}
		value, err := scan.ReadValue()
		if err != nil {
			return syntaxError(data)
		}
		if err := each(name, value); err != nil {
			return err
		}
	}
	return scan.closeContainer()
}

// Elements calls each for every element of a JSON list, in order, with a view of data.
func Elements(data []byte, each func(value []byte) error) error {
	scan, err := openContainer(data, '[')
	if err != nil {
		return err
	}
	for kind := scan.PeekKind(); kind != 0 && kind != ']'; kind = scan.PeekKind() {
		value, err := scan.ReadValue()
		if err != nil {
			return syntaxError(data)
		}
		if err := each(value); err != nil {
			return err
		}
	}
	return scan.closeContainer()
}

// Unquoted returns the text of a JSON string, as a view unless it has escapes.
func Unquoted(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	// Members has checked the string.
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

// openContainer reads the beginning of an object or a list.
func openContainer(data []byte, kind jsontext.Kind) (scanner, error) {
	scan := scanner{data: data}
	switch found := scan.PeekKind(); {
	case found != kind && found != 0 && found != '}' && found != ']':
		if err := syntaxError(data); !errors.Is(err, errNotPlain) {
			return scan, err
		}
		return scan, &FieldError{Err: errors.New("must be " + kindName(kind) + ", is " + kindName(found))}
	case found != kind:
		return scan, syntaxError(data)
	}
	_, err := scan.ReadToken()
	return scan, err
}

// closeContainer reads the end of an object or a list. Nothing may follow.
func (s *scanner) closeContainer() error {
	if _, err := s.ReadToken(); err != nil {
		return syntaxError(s.data)
	}
	if _, err := s.ReadToken(); !errors.Is(err, io.EOF) {
		return syntaxError(s.data)
	}
	return nil
}

// syntaxError returns why data is not one JSON value.
func syntaxError(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	switch err := dec.SkipValue(); {
	case errors.Is(err, io.EOF):
		return errors.New("empty")
	case err != nil:
		return err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errTrailingData
	}
	return errNotPlain
}
