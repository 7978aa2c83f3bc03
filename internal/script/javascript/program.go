// Package javascript runs inline hooks in JavaScript, on QuickJS in pure Go. It is the only package
// that imports QuickJS. The package modernc.org/quickjs does not fit: it names every source "<eval>", and runs a
// module as it reads it, so that modules could not be kept as bytecode.
//
// Every call has the VM as it was before the first: restoring the image of its memory takes far less
// time than making another one. The top level of the modules has run in it, unless that may differ from call to call.
package javascript

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"modernc.org/libquickjs"

	"github.com/setpoint-dev/setpoint/internal/script"
)

// Engine compiles JavaScript modules.
type Engine struct{}

// Load implements script.Engine.
func (Engine) Load(files script.Files) (script.Program, error) {
	if err := files.CheckEncoding(); err != nil {
		return nil, err
	}
	p := &program{entry: files.Entry, memoryBytes: files.MemoryBytes}
	if err := p.compile(files); err != nil {
		return nil, err
	}
	if err := p.prepare(files.Deadline); err != nil {
		return nil, err
	}
	return p, nil
}

// program is the bytecode of an author's modules.
type program struct {
	entry       string
	memoryBytes int64
	prelude     cString
	modules     []cString
	sources     map[string]bool
	functions   []string
	vm          *vm
}

func (p *program) compile(files script.Files) error {
	m, err := newRuntime(files.MemoryBytes)
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.addGlobals(true); err != nil {
		return err
	}
	// Functions need no text of their source, which would make bytecode larger.
	libquickjs.XJS_SetStripInfo(m.tls, m.runtime, libquickjs.MJS_STRIP_SOURCE)
	if p.prelude, err = m.bytecode(m.compileSource(nameOfPrelude, preludeSource, libquickjs.MJS_EVAL_TYPE_GLOBAL)); err != nil {
		return err
	}
	if err := m.startPrelude(p.prelude); err != nil {
		return err
	}
	p.sources = map[string]bool{}
	for name := range files.Sources {
		p.sources[name] = true
	}
	m.sources = p.sources
	c := &compiler{vm: m, files: files}
	libquickjs.XJS_SetModuleLoaderFunc(m.tls, m.runtime, callback(&m.callbacks, c.normalize), callback(&m.callbacks, c.load), 0)
	entry := c.compileModule(files.Entry)
	if c.missing != nil {
		return c.missing
	}
	_, err = m.result(entry)
	p.modules = c.modules
	return err
}

// prepare runs the top level of the modules, and takes the image that each call starts from.
func (p *program) prepare(deadline time.Time) (err error) {
	if p.vm, err = p.newVM(); err != nil {
		return err
	}
	p.vm.limit.deadline = deadline
	same, err := p.runTopLevel()
	switch {
	case p.vm.limit.exceeded:
		return p.vm.outOfTime()
	case err != nil:
		return err
	case !same:
		p.vm.close()
		if p.vm, err = p.newVM(); err != nil {
			return err
		}
	}
	p.vm.memory.takeImage()
	p.vm.restart()
	return nil
}

// newVM makes a VM with all modules, of which none has run, and without an image.
func (p *program) newVM() (*vm, error) {
	m, err := newRuntime(p.memoryBytes)
	if err != nil {
		return nil, err
	}
	m.sources = p.sources
	if err := useUTC(m.tls); err != nil {
		return nil, err
	}
	if err := m.addGlobals(false); err != nil {
		return nil, err
	}
	if err := m.startPrelude(p.prelude); err != nil {
		return nil, err
	}
	for _, code := range p.modules {
		module, err := m.readBytecode(code)
		if err != nil {
			return nil, err
		}
		m.entry = module // the last
	}
	if libquickjs.XJS_ResolveModule(m.tls, m.context, m.entry) < 0 {
		return nil, m.exception()
	}
	return m, nil
}

// runTopLevel runs the top level of the modules, and reports whether it is the same in each call.
func (p *program) runTopLevel() (same bool, err error) {
	exports, err := p.vm.startCall(&script.Call{})
	if err != nil {
		return false, err
	}
	if p.functions, err = p.vm.functionsOf(exports); err != nil {
		return false, err
	}
	differs, err := p.vm.call(p.vm.differs, undefined)
	p.vm.exports = &exports
	return payload[int32](differs) == 0, err
}

func (p *program) Functions() []string { return slices.Clone(p.functions) }

func (p *program) Call(c *script.Call) ([]byte, error) {
	if !slices.Contains(p.functions, c.Function) {
		return nil, &script.Error{Message: p.entry + " exports no function " + c.Function}
	}
	defer p.vm.restart()
	p.vm.log, p.vm.limit.deadline = c.Log, c.Deadline
	response, err := p.vm.run(c)
	if p.vm.limit.exceeded {
		return nil, p.vm.outOfTime()
	}
	return response, err
}

func (m *vm) functionsOf(exports value) (names []string, err error) {
	list, err := m.call(m.functions, exports)
	if err != nil {
		return nil, err
	}
	text, err := m.text(list)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &names); err != nil {
		return nil, fmt.Errorf("read the names of functions: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

func (m *vm) run(c *script.Call) ([]byte, error) {
	exports, err := m.startCall(c)
	if err != nil {
		return nil, err
	}
	function, err := m.property(exports, c.Function)
	if err != nil {
		return nil, err
	}
	request, err := m.decode(c.Request)
	if err != nil {
		return nil, err
	}
	result, err := m.call(function, request)
	if err != nil {
		return nil, err
	}
	if result, err = m.settled(result, c.Function); err != nil {
		return nil, err
	}
	response, err := m.respond(result, c.Function)
	if refused, is := errors.AsType[*script.Error](err); is && refused.File == "" && refused.Limit == "" {
		m.addPlace(refused, function)
	}
	if err != nil {
		return nil, err
	}
	// Writing the response runs getters and toJSON of the author's.
	if err := m.runJobs(); err != nil {
		return nil, err
	}
	return response, m.unhandled()
}

// addPlace adds where a function begins, if the engine knows.
func (m *vm) addPlace(e *script.Error, function value) {
	var texts [3]string
	for i, name := range []string{"fileName", "lineNumber", "columnNumber"} {
		if v, err := m.property(function, name); err == nil {
			text, _ := m.rawText(v)
			texts[i] = string(text)
		}
	}
	if file, line, column := parsePlace(strings.Join(texts[:], ":")); m.sources[file] {
		e.File, e.Line, e.Column = file, line, column
	}
}

// startCall sets the clock, runs the top level of the modules if it has not run, and returns what the entry exports.
func (m *vm) startCall(c *script.Call) (exports value, err error) {
	begin, err := m.decode(fmt.Appendf(nil, "[%d, %d, %d]", c.Time.UnixMilli(), uint32(c.Seed), uint32(c.Seed>>32)))
	if err != nil {
		return undefined, err
	}
	if _, err := m.call(m.begin, begin); err != nil {
		return undefined, err
	}
	if m.exports != nil {
		return *m.exports, nil
	}
	started, err := m.result(libquickjs.XJS_EvalFunction(m.tls, m.context, m.entry))
	if err != nil {
		return undefined, err
	}
	if _, err = m.settled(started, "the top level"); err != nil {
		return undefined, err
	}
	return m.result(libquickjs.XJS_GetModuleNamespace(m.tls, m.context, pointer(m.entry)))
}

// settled waits for a promise, if the result is one, and for all others.
func (m *vm) settled(result value, of string) (value, error) {
	if err := m.runJobs(); err != nil {
		return undefined, err
	}
	const fulfilled, pending, rejected = libquickjs.EJS_PROMISE_FULFILLED, libquickjs.EJS_PROMISE_PENDING, libquickjs.EJS_PROMISE_REJECTED
	state := libquickjs.XJS_PromiseState(m.tls, m.context, result)
	if state != fulfilled && state != pending && state != rejected {
		return result, m.unhandled()
	}
	if state == pending {
		return undefined, &script.Error{Message: "the promise of " + of + " never settles: there are no timers and no network to wait for"}
	}
	settled := libquickjs.XJS_PromiseResult(m.tls, m.context, result)
	if state == rejected {
		return undefined, m.describeError(settled)
	}
	return settled, m.unhandled()
}

// unhandled is the error of the first promise that was rejected while nothing waits for it.
func (m *vm) unhandled() error {
	if len(m.rejected) == 0 {
		return nil
	}
	err := m.describeError(m.rejected[0].reason)
	if e := (*script.Error)(nil); errors.As(err, &e) {
		e.Message += " (in a promise that nothing awaits)"
	}
	return err
}
