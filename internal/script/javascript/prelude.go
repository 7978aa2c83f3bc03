package javascript

import (
	_ "embed"
	"slices"
	"strings"

	"modernc.org/libc"
	"modernc.org/libquickjs"
)

//go:embed prelude.js
var preludeSource string

// startPrelude runs the prelude, before any code of the author.
func (m *vm) startPrelude(code cString) error {
	script, err := m.readBytecode(code)
	if err != nil {
		return err
	}
	function, err := m.result(libquickjs.XJS_EvalFunction(m.tls, m.context, script))
	if err != nil {
		return err
	}
	natives, err := m.newNatives()
	if err != nil {
		return err
	}
	functions, err := m.call(function, natives)
	if err != nil {
		return err
	}
	for name, v := range map[string]*value{
		"begin": &m.begin, "bigInt": &m.bigInt, "bigIntOf": &m.bigIntOf, "booleanOf": &m.booleanOf, "describe": &m.describe,
		"differs": &m.differs, "functions": &m.functions, "numberOf": &m.numberOf, "refuseJSON": &m.refuseJSON, "show": &m.show,
		"where": &m.where,
	} {
		if *v, err = m.property(functions, name); err != nil {
			return err
		}
	}
	track := func(_ *libc.TLS, _ uintptr, promise, reason value, handled int32, _ uintptr) {
		m.trackRejection(promise, reason, handled != 0)
	}
	libquickjs.XJS_SetHostPromiseRejectionTracker(m.tls, m.runtime, callback(&m.callbacks, track), 0)
	return nil
}

// newNatives is an object with the functions in Go that the prelude calls.
func (m *vm) newNatives() (value, error) {
	natives, err := m.result(libquickjs.XJS_NewObject(m.tls, m.context))
	if err != nil {
		return undefined, err
	}
	for name, f := range map[string]func(argument value) value{"print": m.printLines, "encodeText": m.encodeText,
		"decodeText": m.decodeText} {
		native := func(_ *libc.TLS, _ uintptr, _ value, _ int32, arguments uintptr) value {
			return f(read[value](arguments))
		}
		address := callback(&m.callbacks, native)
		function := libquickjs.XJS_NewCFunction2(m.tls, m.context, address, m.shared.name(), 1, libquickjs.EJS_CFUNC_generic, 0)
		if err := m.setProperty(natives, name, function); err != nil {
			return undefined, err
		}
	}
	return natives, nil
}

func (m *vm) printLines(v value) value {
	if text, err := m.text(v); err == nil && m.log != nil {
		for line := range strings.SplitSeq(string(text), "\n") {
			m.log(line)
		}
	}
	return undefined
}

// encodeText returns an ArrayBuffer with a string in UTF-8. The string has no half of a surrogate pair.
func (m *vm) encodeText(v value) value {
	c := libquickjs.XJS_ToCStringLen2(m.tls, m.context, m.shared.length(), v, 0)
	if c == 0 {
		return exception
	}
	defer libquickjs.XJS_FreeCString(m.tls, m.context, c)
	return libquickjs.XJS_NewArrayBufferCopy(m.tls, m.context, c, read[size](m.shared.length()))
}

// decodeText returns the string that an ArrayBuffer has in UTF-8, with U+FFFD for what is not.
func (m *vm) decodeText(v value) value {
	address := libquickjs.XJS_GetArrayBuffer(m.tls, m.context, m.shared.length(), v)
	length := int(read[size](m.shared.length()))
	if address == 0 && length > 0 {
		return exception
	}
	text, err := newCString(string([]rune(string(libc.GoBytes(address, length)))))
	if err != nil {
		return libquickjs.XJS_ThrowOutOfMemory(m.tls, m.context)
	}
	defer text.free(m.tls)
	return libquickjs.XJS_NewStringLen(m.tls, m.context, text.address, text.length)
}

// trackRejection is called for each promise that is rejected while nothing handles it, and again if
// something handles it later.
func (m *vm) trackRejection(promise, reason value, handled bool) {
	if !handled {
		m.rejected = append(m.rejected, rejection{
			promise: libquickjs.XDupValue(m.tls, m.context, promise), reason: libquickjs.XDupValue(m.tls, m.context, reason),
		})
		return
	}
	m.rejected = slices.DeleteFunc(m.rejected, func(r rejection) bool { return r.promise == promise })
}
