package program

import (
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Error is a failed call of a program.
type Error struct {
	// Name is the program as in the spec.
	Name string
	Err  error
}

func (e *Error) Error() string { return "exec " + e.Name + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Fault classifies the error for user interfaces.
func (e *Error) Fault() *failure.Fault { return &failure.Fault{Kind: child.FaultKind(e.Err)} }

// Wrap implements call.Transport.
func (p *program) Wrap(_ call.HookType, err error) error { return &Error{p.name, err} }
