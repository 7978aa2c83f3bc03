package javascript

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"modernc.org/libquickjs"

	"github.com/setpoint-dev/setpoint/internal/script"
)

// decode makes a value of JSON. A number has 53 bits, so larger integers become BigInts.
func (m *vm) decode(json []byte) (value, error) {
	if !utf8.Valid(json) {
		json = bytes.ToValidUTF8(json, []byte("\uFFFD"))
	}
	text, err := m.input.hold(m.tls, json)
	if err != nil {
		return undefined, err
	}
	// The decoder reads a buffer in place, so its values are in memory of C too.
	d := decoder{m, jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	v, err := d.value()
	if err != nil {
		return undefined, err
	}
	if _, err := d.in.ReadToken(); !errors.Is(err, io.EOF) {
		return undefined, errors.Join(errors.New("there is more after the JSON"), err)
	}
	return v, nil
}

// decoder makes values of what it reads. It is twice as fast as JSON.parse of the engine.
type decoder struct {
	*vm

	in *jsontext.Decoder
}

func (d decoder) value() (value, error) {
	switch d.in.PeekKind() {
	case '{':
		return d.container(libquickjs.XJS_NewObject(d.tls, d.context), d.addMember)
	case '[':
		return d.container(libquickjs.XJS_NewArray(d.tls, d.context), d.addElement)
	}
	text, err := d.in.ReadValue()
	if err != nil {
		return undefined, err
	}
	switch text.Kind() {
	case '"':
		return d.decodeString(text)
	case 't':
		return newValue(libquickjs.EJS_TAG_BOOL, int32(1)), nil
	case 'f':
		return newValue(libquickjs.EJS_TAG_BOOL, int32(0)), nil
	case 'n':
		return value{Ftag: libquickjs.EJS_TAG_NULL}, nil
	}
	return d.decodeNumber(text)
}

func (d decoder) container(to value, add func(to value, i uint32) error) (value, error) {
	if _, err := d.result(to); err != nil {
		return undefined, err
	}
	if _, err := d.in.ReadToken(); err != nil {
		return undefined, err
	}
	if d.in.StackDepth() > depth {
		return undefined, &script.Error{Message: "the request has too many levels", Limit: limitOfDepth}
	}
	for i := uint32(0); ; i++ {
		if kind := d.in.PeekKind(); kind == '}' || kind == ']' {
			_, err := d.in.ReadToken()
			return to, err
		}
		if err := add(to, i); err != nil {
			return undefined, err
		}
	}
}

func (d decoder) addElement(array value, i uint32) error {
	v, err := d.value()
	if err != nil {
		return err
	}
	return d.defined(libquickjs.XJS_DefinePropertyValueUint32(d.tls, d.context, array, i, v, libquickjs.MJS_PROP_C_W_E))
}

func (d decoder) addMember(object value, _ uint32) error {
	name, err := d.in.ReadValue()
	if err != nil {
		return err
	}
	atom, err := d.atom(name)
	if err != nil {
		return err
	}
	v, err := d.value()
	if err != nil {
		return err
	}
	return d.defined(libquickjs.XJS_DefinePropertyValue(d.tls, d.context, object, atom, v, libquickjs.MJS_PROP_C_W_E))
}

func (d decoder) defined(result int32) error {
	if result < 0 {
		return d.exception()
	}
	return nil
}

func (d decoder) decodeString(quoted []byte) (value, error) {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return d.parse(quoted)
	}
	return d.newString(quoted[1 : len(quoted)-1])
}

// atom returns the name of a member.
func (d decoder) atom(quoted []byte) (atom libquickjs.TJSAtom, err error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		atom = libquickjs.XJS_NewAtomLen(d.tls, d.context, addressOf(quoted[1:]), size(len(quoted)-2))
	} else if name, err := d.parse(quoted); err == nil {
		atom = libquickjs.XJS_ValueToAtom(d.tls, d.context, name)
	} else {
		return atom, err
	}
	if atom == 0 {
		err = d.exception()
	}
	return atom, err
}

// parse is JSON.parse of the engine, which alone keeps an escaped half of a surrogate pair.
func (d decoder) parse(json []byte) (value, error) {
	text, err := newCString(string(json))
	if err != nil {
		return undefined, err
	}
	defer text.free(d.tls)
	return d.result(libquickjs.XJS_ParseJSON(d.tls, d.context, text.address, text.length, d.shared.name()))
}

const maxSafeInteger = 1<<53 - 1

func (d decoder) decodeNumber(text []byte) (value, error) {
	if bytes.ContainsAny(text, ".eE") || string(text) == "-0" {
		f, err := strconv.ParseFloat(string(text), 64)
		if errors.Is(err, strconv.ErrRange) {
			err = nil // It is infinite, or 0.
		}
		return newValue(libquickjs.EJS_TAG_FLOAT64, f), err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case err != nil: // It is out of range.
		long, err := d.newString(text)
		if err != nil {
			return undefined, err
		}
		return d.call(d.bigInt, long)
	case n == int64(int32(n)):
		return newValue(libquickjs.EJS_TAG_INT, int32(n)), nil
	case n < -maxSafeInteger, n > maxSafeInteger:
		return d.result(libquickjs.XJS_NewBigInt64(d.tls, d.context, n))
	}
	return newValue(libquickjs.EJS_TAG_FLOAT64, float64(n)), nil
}

// newString makes a string of text in memory of C.
func (d decoder) newString(text []byte) (value, error) {
	return d.result(libquickjs.XJS_NewStringLen(d.tls, d.context, addressOf(text), size(len(text))))
}
