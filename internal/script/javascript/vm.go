package javascript

import (
	"bytes"
	"errors"
	"time"

	"modernc.org/libc"
	"modernc.org/libquickjs"
)

// A value belongs to a VM. It is never freed: restarting the VM frees all.
type value = libquickjs.TJSValue

//nolint:gochecknoglobals // a constant; the engine's API has it as a macro.
var undefined = value{Ftag: libquickjs.EJS_TAG_UNDEFINED}

//nolint:gochecknoglobals // a constant, likewise.
var exception = value{Ftag: libquickjs.EJS_TAG_EXCEPTION}

// garbage is how much memory the engine uses before it looks for cyclic garbage, which most calls end
// without.
const garbage = 8 << 20

// depth is how many calls may be nested. Each takes stack of Go, about 3 KiB.
const depth = 5000

// vm is one instance of the engine: its runtime, with one realm.
type vm struct {
	tls     *libc.TLS
	runtime uintptr
	context uintptr

	// The functions of the prelude.
	begin, bigInt, bigIntOf, booleanOf, describe, differs, functions, numberOf, refuseJSON, show, where value
	// entry is the module with the functions.
	entry value
	// exports is what entry exports if the image has it; nil if entry has not run.
	exports *value
	// log receives what the code prints.
	log    func(line string)
	memory memory
	limit  timeLimit
	// sources are the names of the author's files, for stacks.
	sources map[string]bool

	// shared is memory that both C and Go know.
	shared shared
	// input is text for the VM.
	input buffer
	// pages are blocks that nothing uses.
	pages []uintptr
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
	m.pages = keepPages(m.tls)
	if m.shared = newShared(m.tls); m.shared == 0 {
		return nil, errOutOfMemory
	}
	m.runtime = m.memory.newRuntime(m)
	if m.runtime == 0 {
		return nil, errOutOfMemory
	}
	m.context = libquickjs.XJS_NewContextRaw(m.tls, m.runtime)
	if m.context == 0 {
		return nil, errOutOfMemory
	}
	libquickjs.XJS_SetGCThreshold(m.tls, m.runtime, garbage)
	libquickjs.XJS_SetMaxStackSize(m.tls, m.runtime, depth)
	interrupt := func(*libc.TLS, uintptr, uintptr) int32 { return m.interrupt() }
	libquickjs.XJS_SetInterruptHandler(m.tls, m.runtime, callback(&m.callbacks, interrupt), 0)
	return m, nil
}

// addGlobals adds what the language has, without what would show when the engine collects garbage:
// WeakRef and FinalizationRegistry. Only a VM that compiles can evaluate source.
func (m *vm) addGlobals(compiles bool) error {
	intrinsics := []func(*libc.TLS, uintptr) int32{
		libquickjs.XJS_AddIntrinsicBaseObjects, libquickjs.XJS_AddIntrinsicDate, libquickjs.XJS_AddIntrinsicStringNormalize,
		libquickjs.XJS_AddIntrinsicRegExp, libquickjs.XJS_AddIntrinsicJSON, libquickjs.XJS_AddIntrinsicProxy,
		libquickjs.XJS_AddIntrinsicMapSet, libquickjs.XJS_AddIntrinsicTypedArrays, libquickjs.XJS_AddIntrinsicPromise,
	}
	if compiles {
		intrinsics = append(intrinsics, libquickjs.XJS_AddIntrinsicEval)
	}
	for _, f := range intrinsics {
		if f(m.tls, m.context) != 0 {
			return errOutOfMemory
		}
	}
	return nil
}

// close frees all memory, without asking the engine to free one object after the other.
func (m *vm) close() {
	m.memory.release(m.tls)
	m.shared.free(m.tls)
	m.input.free(m.tls)
	for _, block := range m.pages {
		libc.Xfree(m.tls, block)
	}
	m.tls.Close()
}

// restart makes the VM what it was when the image of its memory was taken.
func (m *vm) restart() {
	m.memory.restore(m.tls)
	if m.input.size > maxKept {
		m.input.free(m.tls)
	}
	m.rejected, m.log, m.limit = nil, nil, timeLimit{}
}

// result turns an exception into an error.
func (m *vm) result(v value) (value, error) {
	if v.Ftag == libquickjs.EJS_TAG_EXCEPTION {
		return undefined, m.exception()
	}
	return v, nil
}

func (m *vm) call(function, argument value) (value, error) {
	return m.result(m.rawCall(function, argument))
}

// rawCall is call whose result may be an exception.
func (m *vm) rawCall(function, argument value) value {
	write(m.shared.argument(), argument)
	return libquickjs.XJS_Call(m.tls, m.context, function, undefined, 1, m.shared.argument())
}

func (m *vm) property(object value, name string) (value, error) {
	c, err := newCString(name)
	if err != nil {
		return undefined, err
	}
	defer c.free(m.tls)
	return m.result(libquickjs.XJS_GetPropertyStr(m.tls, m.context, object, c.address))
}

// setProperty sets a property of an object, which then owns the value.
func (m *vm) setProperty(object value, name string, v value) error {
	c, err := newCString(name)
	if err != nil {
		return err
	}
	defer c.free(m.tls)
	if libquickjs.XJS_SetPropertyStr(m.tls, m.context, object, c.address, v) < 0 {
		return m.exception()
	}
	return nil
}

// text is the string that a value is, in UTF-8.
func (m *vm) text(v value) ([]byte, error) {
	text, known := m.rawText(v)
	if !known {
		return nil, m.exception()
	}
	return text, nil
}

// rawText is text that may leave an exception.
func (m *vm) rawText(v value) (text []byte, known bool) {
	c := libquickjs.XJS_ToCStringLen2(m.tls, m.context, m.shared.length(), v, 0)
	if c == 0 {
		return nil, false
	}
	defer libquickjs.XJS_FreeCString(m.tls, m.context, c)
	return bytes.Clone(libc.GoBytes(c, int(read[size](m.shared.length())))), true
}

// runJobs continues promises until none can go on.
func (m *vm) runJobs() error {
	for !m.limit.exceeded {
		switch libquickjs.XJS_ExecutePendingJob(m.tls, m.runtime, m.shared.length()) {
		case 0:
			return nil
		case -1:
			return m.exception()
		}
	}
	return nil
}

// newRuntime makes a runtime of the engine that allocates here.
func (a *memory) newRuntime(m *vm) uintptr {
	write(m.shared.allocator(), libquickjs.TJSMallocFunctions{
		Fjs_malloc:             callback(&m.callbacks, a.allocate),
		Fjs_free:               callback(&m.callbacks, a.deallocate),
		Fjs_realloc:            callback(&m.callbacks, a.reallocate),
		Fjs_malloc_usable_size: callback(&m.callbacks, a.usable),
	})
	return libquickjs.XJS_NewRuntime2(m.tls, m.shared.allocator(), 0)
}

// timeLimit ends code that runs too long. Functions of the engine that loop by themselves do not look
// at it.
type timeLimit struct {
	deadline time.Time // zero for none
	exceeded bool
	// stack is where the code was.
	stack string
	// locating is set while the stack is read, which runs code too.
	locating bool
}
