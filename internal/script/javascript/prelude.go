package javascript

import (
	_ "embed"
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
	functions, err := m.call(function, m.newPrint())
	if err != nil {
		return err
	}
	for name, v := range map[string]*value{
		"begin": &m.begin, "describe": &m.describe, "exact": &m.exact, "functions": &m.functions,
		"refuseJSON": &m.refuseJSON, "show": &m.show, "where": &m.where,
	} {
		if *v, err = m.property(functions, name); err != nil {
			return err
		}
	}
	track := func(_ *libc.TLS, _ uintptr, promise, reason value, handled int32, _ uintptr) {
		m.trackRejection(promise, reason, handled != 0)
	}
	libquickjs.XJS_SetHostPromiseRejectionTracker(m.tls, m.runtime, callback(m, track), 0)
	return nil
}

// newPrint is a function of JavaScript that logs a string.
func (m *vm) newPrint() value {
	printLines := func(_ *libc.TLS, _ uintptr, _ value, _ int32, arguments uintptr) value {
		if text, err := m.text(read[value](arguments)); err == nil && m.log != nil {
			for line := range strings.SplitSeq(string(text), "\n") {
				m.log(line)
			}
		}
		return undefined
	}
	return libquickjs.XJS_NewCFunction2(m.tls, m.context, callback(m, printLines), m.shared.name(), 1, libquickjs.EJS_CFUNC_generic, 0)
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
	for i, r := range m.rejected {
		if r.promise == promise {
			m.rejected = append(m.rejected[:i], m.rejected[i+1:]...)
			return
		}
	}
}
