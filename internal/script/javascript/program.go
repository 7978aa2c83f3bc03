package javascript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"modernc.org/libquickjs"

	"github.com/setpoint-dev/setpoint/internal/script"
)

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

// newVM makes a VM with all modules, of which none has run.
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
	m.memory.takeImage()
	return m, nil
}

// exported runs the top level of the modules, and returns the functions that the entry exports.
func (p *program) exported(m *vm) (names []string, err error) {
	exports, err := m.start(&script.Call{})
	if err != nil {
		return nil, err
	}
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

// run makes a call.
func (m *vm) run(c *script.Call) ([]byte, error) {
	exports, err := m.start(c)
	if err != nil {
		return nil, err
	}
	function, err := m.property(exports, c.Function)
	if err != nil {
		return nil, err
	}
	request, err := m.request(c.Request)
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
	return m.respond(result)
}

// start sets the clock, runs the top level of the modules, and returns what the entry exports.
func (m *vm) start(c *script.Call) (exports value, err error) {
	begin, err := m.parse(fmt.Appendf(nil, "[%d, %d, %d]", c.Time.UnixMilli(), uint32(c.Seed), uint32(c.Seed>>32)))
	if err != nil {
		return undefined, err
	}
	if _, err := m.call(m.begin, begin); err != nil {
		return undefined, err
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

// request makes a value of a request. A number has 53 bits, so larger integers become BigInts.
func (m *vm) request(text []byte) (value, error) {
	text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	if !hasLongNumber(text) {
		return m.parse(text)
	}
	s, err := m.newString(text)
	if err != nil {
		return undefined, err
	}
	return m.call(m.exact, s)
}

// hasLongNumber reports whether JSON has 16 digits in a row, as all integers have that a number
// cannot hold.
func hasLongNumber(text []byte) bool {
	digits := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			digits = 0
			continue
		}
		digits++
		if digits == 16 {
			return true
		}
	}
	return false
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
