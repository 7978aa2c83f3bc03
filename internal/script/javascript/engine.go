// Package javascript runs inline hooks in JavaScript, on QuickJS in pure Go. It is the only package
// that imports QuickJS. The package modernc.org/quickjs does not fit: it names every source "<eval>", and runs a
// module as it reads it, so that modules could not be kept as bytecode.
//
// Every call has a VM of its own. Its sources are bytecode, so that making one is cheap, and a spare
// one is made while no call runs.
package javascript

import (
	"github.com/setpoint-dev/setpoint/internal/script"
)

// Engine compiles JavaScript modules.
type Engine struct{}

// Load implements script.Engine.
func (Engine) Load(files script.Files) (script.Program, error) {
	if err := files.CheckEncoding(); err != nil {
		return nil, err
	}
	p := &program{entry: files.Entry, memoryBytes: files.MemoryBytes, spare: make(chan *vm, 1)}
	if err := p.compile(files); err != nil {
		return nil, err
	}
	m, err := p.newVM()
	if err != nil {
		return nil, err
	}
	defer m.close()
	if p.functions, err = p.exported(m); err != nil {
		return nil, err
	}
	go p.makeSpare()
	return p, nil
}
