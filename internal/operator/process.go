package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// pythonProcess is a running process.
type pythonProcess struct {
	folder       folder
	removeFolder func()
	reaper       *process.Reaper
	// alive is open while the process runs: the process ends when it is closed, however
	// Setpoint ends.
	alive *os.File
	stop  context.CancelFunc
	ended chan struct{}
	err   error // Valid when ended is closed.
}

// stopGrace is the time between SIGTERM and SIGKILL. Setpoint has stopped calling before.
const stopGrace = 10 * time.Second

// Close stops the process and removes what it needed.
func (r *pythonProcess) Close() {
	r.stop()
	<-r.ended
	_ = r.alive.Close()
	r.reaper.Close()
	r.removeFolder()
}

// ErrImport means that the files of the operator cannot be imported. The process has printed
// why. To start it again does not help.
var ErrImport = errors.New("the files of the operator cannot be imported; see above")

// ImportCode is the exit code of a process, and of `setpoint run`, whose files cannot be imported.
const ImportCode = 3

// undeclared returns why an ended process did not declare.
func (r *pythonProcess) undeclared() error {
	if exit, is := errors.AsType[*ExitError](r.err); is && exit.Code == ImportCode {
		return ErrImport
	}
	return r.err
}

// signalCodes is added to a signal in an exit code.
const signalCodes = 128

// ExitError is the end of the process of an operator.
type ExitError struct{ Code int }

func (e *ExitError) Error() string {
	switch {
	case e.Code == 0:
		return "the process of the operator ended, but it should keep running"
	case e.Code > signalCodes:
		return fmt.Sprintf("the process of the operator was killed by signal %d", e.Code-signalCodes)
	}
	return fmt.Sprintf("the process of the operator ended with exit code %d", e.Code)
}
