package javascript

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"modernc.org/libc"
	"modernc.org/libquickjs"

	"github.com/setpoint-dev/setpoint/internal/script"
)

// compiler makes bytecode of the entry and of all modules that it imports.
type compiler struct {
	*vm
	files   script.Files
	modules []cString // those that others import first, the entry last
	missing *script.Error
}

// compileSource compiles without running.
func (m *vm) compileSource(name, source string, kind int32) value {
	n, err := newCString(name)
	if err != nil {
		return libquickjs.XJS_ThrowOutOfMemory(m.tls, m.context)
	}
	defer n.free(m.tls)
	s, err := newCString(source)
	if err != nil {
		return libquickjs.XJS_ThrowOutOfMemory(m.tls, m.context)
	}
	defer s.free(m.tls)
	return libquickjs.XJS_Eval(m.tls, m.context, s.address, s.length, n.address, kind|libquickjs.MJS_EVAL_FLAG_COMPILE_ONLY)
}

// compileModule compiles a module and those that it imports.
func (c *compiler) compileModule(name string) value {
	module := c.compileSource(name, c.files.Sources[name], libquickjs.MJS_EVAL_TYPE_MODULE)
	if module.Ftag == libquickjs.EJS_TAG_EXCEPTION {
		return module
	}
	code, err := c.bytecode(module)
	if err != nil {
		return libquickjs.XJS_ThrowOutOfMemory(c.tls, c.context)
	}
	c.modules = append(c.modules, code)
	return module
}

// bytecode is what other VMs can read. It stays in memory as long as the process does.
func (m *vm) bytecode(compiled value) (cString, error) {
	if _, err := m.result(compiled); err != nil {
		return cString{}, err
	}
	code := libquickjs.XJS_WriteObject(m.tls, m.context, m.shared.length(), compiled, libquickjs.MJS_WRITE_OBJ_BYTECODE)
	if code == 0 {
		return cString{}, m.exception()
	}
	defer libquickjs.Xjs_free(m.tls, m.context, code)
	return newCString(string(libc.GoBytes(code, int(read[size](m.shared.length())))))
}

func (m *vm) readBytecode(code cString) (value, error) {
	return m.result(libquickjs.XJS_ReadObject(m.tls, m.context, code.address, code.length, libquickjs.MJS_READ_OBJ_BYTECODE))
}

// load is called for each module that is not compiled yet.
func (c *compiler) load(_ *libc.TLS, _, name, _ uintptr) uintptr {
	module := c.compileModule(libc.GoString(name))
	if module.Ftag == libquickjs.EJS_TAG_EXCEPTION {
		return 0
	}
	return pointer(module)
}

// normalize is called for each import, and returns the name of the module.
func (c *compiler) normalize(_ *libc.TLS, _, importing, specifier, _ uintptr) uintptr {
	from, to := libc.GoString(importing), libc.GoString(specifier)
	name := path.Join(path.Dir(from), to)
	_, known := c.files.Sources[name]
	if relative := strings.HasPrefix(to, "./") || strings.HasPrefix(to, "../"); !known || !relative {
		c.missing = c.noModule(from, to)
		libquickjs.XJS_Throw(c.tls, c.context, undefined)
		return 0
	}
	n, err := newCString(name)
	if err != nil {
		libquickjs.XJS_ThrowOutOfMemory(c.tls, c.context)
		return 0
	}
	defer n.free(c.tls)
	return libquickjs.Xjs_strdup(c.tls, c.context, n.address)
}

func (c *compiler) noModule(importing, specifier string) *script.Error {
	var modules []string
	for _, name := range slices.Sorted(maps.Keys(c.files.Sources)) {
		if name != importing {
			modules = append(modules, fmt.Sprintf("%q", "./"+name))
		}
	}
	message := fmt.Sprintf("there is no module %q; there is %s", specifier, strings.Join(modules, ", "))
	if modules == nil {
		message = fmt.Sprintf("there is no module %q, and no other", specifier)
	}
	e := &script.Error{File: importing, Message: message}
	source := c.files.Sources[importing]
	for _, quote := range []string{`"`, `'`} {
		if before, _, found := strings.Cut(source, quote+specifier+quote); found {
			e.Line = strings.Count(before, "\n") + 1
			e.Column = len(before) - strings.LastIndex(before, "\n")
		}
	}
	return e
}
