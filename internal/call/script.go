package call

import (
	"fmt"
	"sync/atomic"
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

// Code identifies the code that a call ran.
type Code struct {
	// Digest is equal for equal code. It is empty if Setpoint cannot see the code, such as behind most webhooks.
	Digest string `json:"digest"`
	// Since is when the code was loaded, or first seen.
	Since time.Time `json:"since"`
	// Source is the text of inline code, on request and while Setpoint keeps it; else empty.
	Source string `json:"source,omitempty"`
	// Holder is the object that has the text of inline code: who may read it may read the text.
	Holder object.Ref `json:"holder,omitzero"`

	text *atomic.Pointer[string]
}

// WithSource returns the code with its text.
func (c Code) WithSource() Code {
	if c.text != nil {
		if text := c.text.Load(); text != nil {
			c.Source = *text
		}
	}
	return c
}

// Keep keeps a text for WithSource.
func (c *Code) Keep(text string) {
	c.text = &atomic.Pointer[string]{}
	c.text.Store(&text)
}

// Forget drops the text, also for the records of calls that ran the code.
func (c *Code) Forget() { c.text.Store(nil) }
