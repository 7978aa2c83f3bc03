package javascript

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"

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
	v, err := script.Decode(text, depth, values{m})
	if errors.Is(err, script.ErrTooDeep) {
		err = &script.Error{Message: "the request has " + script.ErrTooDeep.Error(), Limit: limitOfDepth}
	}
	return v, err
}

// values implements script.Values. Texts are in memory of C.
type values struct{ *vm }

func (values) Null() value { return value{Ftag: libquickjs.EJS_TAG_NULL} }

func (values) Bool(is bool) value {
	if is {
		return newValue(libquickjs.EJS_TAG_BOOL, int32(1))
	}
	return newValue(libquickjs.EJS_TAG_BOOL, int32(0))
}

const maxSafeInteger = 1<<53 - 1

func (m values) Number(text []byte) (value, error) {
	if bytes.ContainsAny(text, ".eE") || string(text) == "-0" {
		f, err := strconv.ParseFloat(string(text), 64)
		if errors.Is(err, strconv.ErrRange) {
			err = nil // It is infinite, or 0.
		}
		return newValue(libquickjs.EJS_TAG_FLOAT64, f), err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		long, err := m.String(text)
		if err != nil {
			return undefined, err
		}
		return m.call(m.bigInt, long)
	case err != nil:
		return undefined, err
	case n == int64(int32(n)):
		return newValue(libquickjs.EJS_TAG_INT, int32(n)), nil
	case n < -maxSafeInteger, n > maxSafeInteger:
		return m.result(libquickjs.XJS_NewBigInt64(m.tls, m.context, n))
	}
	return newValue(libquickjs.EJS_TAG_FLOAT64, float64(n)), nil
}

func (m values) String(text []byte) (value, error) {
	return m.result(libquickjs.XJS_NewStringLen(m.tls, m.context, addressOf(text), size(len(text))))
}

func (m values) Array() (value, error) {
	return m.result(libquickjs.XJS_NewArray(m.tls, m.context))
}

func (m values) Append(array value, index int, element value) error {
	return m.defined(libquickjs.XJS_DefinePropertyValueUint32(m.tls, m.context, array, uint32(index), element, libquickjs.MJS_PROP_C_W_E))
}

func (m values) Object() (value, error) {
	return m.result(libquickjs.XJS_NewObject(m.tls, m.context))
}

func (m values) Set(object value, key []byte, v value) error {
	atom := libquickjs.XJS_NewAtomLen(m.tls, m.context, addressOf(key), size(len(key)))
	if atom == 0 {
		return m.exception()
	}
	return m.defined(libquickjs.XJS_DefinePropertyValue(m.tls, m.context, object, atom, v, libquickjs.MJS_PROP_C_W_E))
}

func (m values) defined(result int32) error {
	if result < 0 {
		return m.exception()
	}
	return nil
}
