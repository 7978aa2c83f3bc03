package object

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// members calls each for every member of the next object, which may be null.
func (p *parser) members(each func(name []byte) error) error {
	if p.dec.PeekKind() == 'n' {
		return p.dec.SkipValue()
	}
	if err := p.open('{', "an object"); err != nil {
		return err
	}
	for p.dec.PeekKind() != '}' {
		name, err := p.dec.ReadValue()
		if err != nil {
			return err
		}
		p.nameFrom = p.dec.InputOffset() - int64(len(name))
		if err := each(p.unquoted(name)); err != nil {
			return err
		}
	}
	_, err := p.dec.ReadToken()
	return err
}

// elements calls each for every item of the next list, which may be null.
func (p *parser) elements(each func() error) error {
	if p.dec.PeekKind() == 'n' {
		return p.dec.SkipValue()
	}
	if err := p.open('[', "a list"); err != nil {
		return err
	}
	for p.dec.PeekKind() != ']' {
		if err := each(); err != nil {
			return err
		}
	}
	_, err := p.dec.ReadToken()
	return err
}

func (p *parser) open(kind jsontext.Kind, want string) error {
	token, err := p.dec.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != kind {
		return fmt.Errorf("must be %s, is %s", want, kindName(token.Kind()))
	}
	return nil
}

// text reads a string, or null.
func (p *parser) text(into *[]byte) error {
	value, err := p.dec.ReadValue()
	if err != nil {
		return err
	}
	switch value.Kind() {
	case '"':
		*into = p.unquoted(value)
	case 'n':
	default:
		return fmt.Errorf("must be a string, is %s", kindName(value.Kind()))
	}
	return nil
}

// textSpan reads a string and stores its span.
func (p *parser) textSpan(into *textSpan) error {
	if err := p.text(&into.text); err != nil || len(into.text) == 0 {
		return err
	}
	end := p.dec.InputOffset() - 1
	into.from = end - int64(len(into.text))
	if into.from < 0 || !bytes.Equal(p.data[into.from:end], into.text) {
		into.from = -1
	}
	return nil
}

// unquoted returns the text of the last JSON string, as a view unless it has escapes.
func (p *parser) unquoted(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		// The reader has checked it.
		text, _ := jsontext.AppendUnquote(nil, quoted)
		return text
	}
	end := p.dec.InputOffset() - 1
	return p.data[end-int64(len(quoted))+2 : end]
}

func (p *parser) integer(into *int64) error {
	value, err := p.dec.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() == '0' {
		*into, err = strconv.ParseInt(string(value), 10, 64)
	}
	if err != nil || (value.Kind() != '0' && value.Kind() != 'n') {
		return errors.New("must be an integer")
	}
	return nil
}

// kindName names a kind of JSON value in messages.
func kindName(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case '0':
		return "a number"
	}
	return kind.String()
}
