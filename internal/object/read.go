package object

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// members calls each for every member of the next object, which may be null.
func (p *parser) members(each func(name []byte) error) error {
	return p.container('{', func() error {
		name, err := p.dec.ReadValue()
		if err != nil {
			return err
		}
		p.nameFrom = p.dec.InputOffset() - int64(len(name))
		return each(Unquoted(name))
	})
}

// container calls each for the items of the next object or list, which may be null.
func (p *parser) container(kind jsontext.Kind, each func() error) error {
	if p.dec.PeekKind() == 'n' {
		return p.skip()
	}
	if err := open(p.dec, kind); err != nil {
		return err
	}
	return readItems(p.dec, each)
}

// skip reads the next value. Unlike SkipValue it does so in one step.
func (p *parser) skip() error {
	_, err := p.dec.ReadValue()
	return err
}

// text reads a string, or null.
func (p *parser) text(into *[]byte) error {
	value, err := p.dec.ReadValue()
	if err != nil {
		return err
	}
	switch value.Kind() {
	case '"':
		*into = Unquoted(value)
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
	names := map[jsontext.Kind]string{'{': "an object", '[': "a list", '"': "a string", '0': "a number"}
	return cmp.Or(names[kind], kind.String())
}
