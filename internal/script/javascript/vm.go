package javascript

import (
	"errors"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libquickjs"
)

// A value belongs to a VM and counts its references: what a function of the VM returns has to be
// freed, unless the VM is closed next.
type value = libquickjs.TJSValue

//nolint:gochecknoglobals // a constant; the engine's API has it as a macro.
var undefined = value{Ftag: libquickjs.EJS_TAG_UNDEFINED}

// vm is one instance of the engine: its runtime, with one realm.
type vm struct {
	tls     *libc.TLS
	runtime uintptr
	context uintptr

	// The functions of the prelude.
	begin, describe, exact, functions, respond value
	// entry is the module with the functions, read but not run.
	entry value
	// log receives what the code prints.
	log    func(line string)
	memory memory
	// sources are the names of the author's files, for stacks.
	sources map[string]bool

	// C reads and writes these by address, so they are part of a struct that does not move.
	arguments [1]value
	length    size
	allocator libquickjs.TJSMallocFunctions
	job       uintptr
	// callbacks keeps the functions alive that C knows by address.
	callbacks []any
	// rejected are the promises that were rejected and that nothing handles.
	rejected []rejection
}

type rejection struct{ promise, reason value }

var errOutOfMemory = errors.New("no memory for a JavaScript VM")

// newRuntime makes a VM without a realm.
func newRuntime(memoryBytes int64) (*vm, error) {
	m := &vm{tls: libc.NewTLS(), memory: memory{limit: size(memoryBytes)}}
	m.runtime = m.memory.newRuntime(m)
	if m.runtime == 0 {
		return nil, errOutOfMemory
	}
	m.context = libquickjs.XJS_NewContextRaw(m.tls, m.runtime)
	if m.context == 0 {
		return nil, errOutOfMemory
	}
	return m, nil
}

// addGlobals adds what the language has, without what would show when the engine collects garbage:
// WeakRef and FinalizationRegistry. Only a VM that compiles can evaluate source.
func (m *vm) addGlobals(compiles bool) error {
	add := []func(*libc.TLS, uintptr) int32{
		libquickjs.XJS_AddIntrinsicBaseObjects, libquickjs.XJS_AddIntrinsicDate, libquickjs.XJS_AddIntrinsicStringNormalize,
		libquickjs.XJS_AddIntrinsicRegExp, libquickjs.XJS_AddIntrinsicJSON, libquickjs.XJS_AddIntrinsicProxy,
		libquickjs.XJS_AddIntrinsicMapSet, libquickjs.XJS_AddIntrinsicTypedArrays, libquickjs.XJS_AddIntrinsicPromise,
	}
	if compiles {
		add = append(add, libquickjs.XJS_AddIntrinsicEval)
	}
	for _, f := range add {
		if f(m.tls, m.context) != 0 {
			return errOutOfMemory
		}
	}
	return nil
}

func (m *vm) close() {
	for _, v := range []value{m.begin, m.describe, m.exact, m.functions, m.respond, m.entry} {
		m.free(v)
	}
	for _, r := range m.rejected {
		m.free(r.promise)
		m.free(r.reason)
	}
	libquickjs.XJS_FreeContext(m.tls, m.context)
	libquickjs.XJS_FreeRuntime(m.tls, m.runtime)
	m.tls.Close()
}

func (m *vm) free(v value) { libquickjs.XFreeValue(m.tls, m.context, v) }

// result turns an exception into an error.
func (m *vm) result(v value) (value, error) {
	if v.Ftag == libquickjs.EJS_TAG_EXCEPTION {
		return undefined, m.exception()
	}
	return v, nil
}

// call calls a function with one argument, and does not free it.
func (m *vm) call(function, argument value) (value, error) {
	m.arguments[0] = argument
	return m.result(libquickjs.XJS_Call(m.tls, m.context, function, undefined, 1, address(&m.arguments[0])))
}

// property gets a property of an object.
func (m *vm) property(object value, name string) (value, error) {
	c, err := newCString(name)
	if err != nil {
		return undefined, err
	}
	defer c.free(m.tls)
	return m.result(libquickjs.XJS_GetPropertyStr(m.tls, m.context, object, c.address))
}

func (m *vm) newString(text []byte) (value, error) {
	c, err := newCString(string(text))
	if err != nil {
		return undefined, err
	}
	defer c.free(m.tls)
	return m.result(libquickjs.XJS_NewStringLen(m.tls, m.context, c.address, c.length))
}

// parse makes a value of JSON.
func (m *vm) parse(json []byte) (value, error) {
	c, err := newCString(string(json))
	if err != nil {
		return undefined, err
	}
	defer c.free(m.tls)
	return m.result(libquickjs.XJS_ParseJSON(m.tls, m.context, c.address, c.length, address(&nameOfPrelude[0])))
}

// text is the string that a value is, in UTF-8.
func (m *vm) text(v value) ([]byte, error) {
	c := libquickjs.XJS_ToCStringLen2(m.tls, m.context, address(&m.length), v, 0)
	if c == 0 {
		return nil, m.exception()
	}
	defer libquickjs.XJS_FreeCString(m.tls, m.context, c)
	return append([]byte(nil), libc.GoBytes(c, int(m.length))...), nil
}

// runJobs continues promises until none can go on.
func (m *vm) runJobs() error {
	for {
		switch libquickjs.XJS_ExecutePendingJob(m.tls, m.runtime, address(&m.job)) {
		case 0:
			return nil
		case -1:
			return m.exception()
		}
	}
}

// cString is text in memory of C, which ends with a zero byte.
type cString struct {
	address uintptr
	length  size
}

func newCString(text string) (cString, error) {
	p, err := libc.CString(text)
	if err != nil {
		return cString{}, err
	}
	return cString{address: p, length: size(len(text))}, nil
}

func (c cString) free(tls *libc.TLS) { libc.Xfree(tls, c.address) }

// address is where C finds a variable, which must not be on a stack.
func address[T any](variable *T) uintptr { return uintptr(unsafe.Pointer(variable)) }

// callback is what C calls a Go function by. It is valid as long as the VM is.
func callback[F any](m *vm, f F) uintptr {
	m.callbacks = append(m.callbacks, f)
	return *(*uintptr)(unsafe.Pointer(&f))
}

// read copies what C has at an address.
func read[T any](address uintptr) (v T) {
	size := unsafe.Sizeof(v)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v)), size), libc.GoBytes(address, int(size)))
	return v
}

// pointer is the address of the object that a value is.
func pointer(v value) uintptr { return *(*uintptr)(unsafe.Pointer(&v)) }
