// Package script is the side of inline hooks that runs in a child process: the interface of the
// engines in its sub-packages, the input of a call of the author's code and its JSON, and the errors of that
// code. It holds no language, and knows neither controllers nor Kubernetes. Package
// internal/call/inline starts the children.
package script

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Engine compiles sources of one language.
type Engine interface {
	// Load compiles the sources and runs the top level of each file once, so that what is wrong
	// with them is known before the first call. An error of the sources is an *Error.
	Load(files Files) (Program, error)
}

// Files are the sources of one program.
type Files struct {
	// Entry is the name of the file with the functions, such as "sync.js".
	Entry string
	// Sources are the files by name, with Entry. Nothing else can be imported.
	Sources map[string]string
	// MemoryBytes is a limit of the engine's own for memory; 0 for none. It is a first fence: the
	// process has one that the operating system enforces.
	MemoryBytes int64
	// Deadline is when the engine stops the top level; zero for never.
	Deadline time.Time
	// Log receives what a top level prints that runs once; nil discards it.
	Log func(line string)
}

// Program is compiled source, ready to be called. It makes one call at a time.
type Program interface {
	// Functions are the names of the functions that can be called, sorted.
	Functions() []string
	// Call calls a function. No call sees what another one has left behind. An error of the
	// author's code is an *Error.
	Call(c *Call) (response []byte, err error)
}

// Call is one call of a function.
type Call struct {
	// Function is the name of the function.
	Function string
	// Request is its argument, in JSON.
	Request []byte
	// Time is what the clock says throughout the call, in UTC and with milliseconds.
	Time time.Time
	// Seed is what random numbers are made of.
	Seed uint64
	// Deadline is when the engine stops the code, to report where it was; zero for never. The
	// parent process kills a child soon after that: no engine stops its own loops.
	Deadline time.Time
	// Log receives each line that the code prints; nil discards them.
	Log func(line string)
}

// Error is an error of the author's code, with where it happened.
type Error struct {
	// File is the name of a source; empty if the place is not known.
	File string `json:"file,omitempty"`
	// Line and Column count from 1; Column is 0 if it is not known.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Message says what happened, such as "TypeError: cannot read property 'spec' of undefined".
	Message string `json:"message"`
	// Stack has the innermost call first, each as "pod (pod.js:12:5)".
	Stack []string `json:"stack,omitempty"`
	// Limit is the limit that was exceeded, such as "memory 128MiB"; empty for other errors.
	Limit string `json:"limit,omitempty"`
}

// TimeLimit is the Limit of an Error of code that did not return until the deadline.
const TimeLimit = "time"

// maxMessage bounds a message, in bytes: code can throw anything.
const maxMessage = 2000

// OneLine returns text as the message of an error: line breaks are spaces, and the end of long text
// is left out.
func OneLine(text string) string {
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

// Error has the place in front, as compilers write it: "sync.js:12:5: TypeError: …".
func (e *Error) Error() string {
	if place := e.Place(); place != "" {
		return place + ": " + e.Message
	}
	return e.Message
}

// Place is "file:line:column", as far as it is known.
func (e *Error) Place() string {
	if e.File == "" {
		return ""
	}
	place := []string{e.File}
	for _, n := range []int{e.Line, e.Column} {
		if n == 0 {
			break
		}
		place = append(place, strconv.Itoa(n))
	}
	return strings.Join(place, ":")
}

// CheckEncoding returns an *Error for the first source that is not UTF-8.
func (f Files) CheckEncoding() error {
	for _, name := range slices.Sorted(maps.Keys(f.Sources)) {
		source := f.Sources[name]
		for i, r := range source {
			if _, size := utf8.DecodeRuneInString(source[i:]); r == utf8.RuneError && size == 1 {
				before := source[:i]
				return &Error{
					File: name, Line: strings.Count(before, "\n") + 1,
					Column:  utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1,
					Message: "the source is not UTF-8",
				}
			}
		}
	}
	return nil
}
