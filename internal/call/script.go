package call

import (
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Share says which part of all processes of hooks a controller may use. It is no part of the code.
type Share struct {
	// Owner is the ServiceAccount as which the controller acts, or the controller if it has none: an owner cannot use all.
	Owner string `json:"-"`
	// Reviews means that the hook reviews requests to the API server, which have processes of their own.
	Reviews bool `json:"-"`
}

// Script is the code of inline hooks of one controller. Hooks with the same code share one.
type Script struct {
	// Controller is the controller's name in logs, such as
	// "compositecontroller.setpoint.dev/tenants".
	Controller string
	Share
	// Language is JavaScript or Starlark, as in a spec.
	Language string
	// Entry is the file with the functions, such as "sync.js".
	Entry string
	// Sources are all files by name, with that of Entry.
	Sources map[string]string
	// Holder is the object that has the Sources. It is no part of the code.
	Holder object.Ref `json:"-"`
	// Place returns where a file is, as errors name it; nil for its name.
	Place func(file string) string `json:"-"`
}

// Program is a compiled Script.
type Program interface {
	// Functions are the names of the functions that can be called.
	Functions() []string
	// Function returns what calls one of them with a time limit. Closing it does nothing.
	Function(name string, timeout time.Duration) Transport
	// Close ends what the program runs, also calls.
	Close()
}

// SourceError is why a Script does not compile, and where. Line and Column are 0 if they
// are unknown.
type SourceError struct {
	File         string
	Line, Column int
	Message      string
}

func (e *SourceError) Error() string { return e.File + e.Position() + ": " + e.Message }

// Position returns text such as ":12:5", as far as it is known.
func (e *SourceError) Position() string {
	switch {
	case e.Line == 0:
		return ""
	case e.Column == 0:
		return fmt.Sprintf(":%d", e.Line)
	}
	return fmt.Sprintf(":%d:%d", e.Line, e.Column)
}

// Command is the program of an exec hook.
type Command struct {
	// Controller is the controller's name in logs.
	Controller string
	Share
	// Args are the program and its arguments.
	Args    []string
	Timeout time.Duration
}
