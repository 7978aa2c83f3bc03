// Package javascript runs inline hooks in JavaScript, on QuickJS in pure Go. It is the only package
// that imports QuickJS. The package modernc.org/quickjs does not fit: it names every source "<eval>", and runs a
// module as it reads it, so that modules could not be kept as bytecode.
//
// Every call has the VM as it was before the first: restoring the image of its memory takes far less
// time than making another one. The top level of the modules has run in it, unless that may differ from call to call.
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
	p := &program{entry: files.Entry, memoryBytes: files.MemoryBytes}
	if err := p.compile(files); err != nil {
		return nil, err
	}
	if err := p.prepare(files.Deadline); err != nil {
		return nil, err
	}
	return p, nil
}
