// Package command is what every command has: the streams and the exit code of its invocation, errors with hints, signals,
// arguments, and the version of the program.
package command

import (
	"errors"
	"fmt"
	"io"
)

// Invocation is one invocation of the command line.
type Invocation struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Code is the exit code set by a command that chooses its own.
	Code int
}

// Exit codes. `setpoint dev … -- COMMAND` exits with the code of the command.
const (
	OK         = 0
	Failure    = 1
	WrongUsage = 2
	Aborted    = 130 // As a shell reports Ctrl-C.
)

// UsageIsAFailure annotates commands that use exit code 2 for something else. They exit with 1 on
// wrong usage.
const UsageIsAFailure = "usage-is-a-failure"

// invalidUsage is an invalid command line.
type invalidUsage struct{ error }

func (e invalidUsage) Unwrap() error { return e.error }

// UsageError returns the error of an invalid command line.
func UsageError(err error) error { return invalidUsage{err} }

// UsageErrorf is UsageError with a formatted message.
func UsageErrorf(format string, args ...any) error { return UsageError(fmt.Errorf(format, args...)) }

// IsUsageError reports whether the command line is invalid.
func IsUsageError(err error) bool {
	_, is := errors.AsType[invalidUsage](err)
	return is
}

// errorWithHint is an error with a hint for the user.
type errorWithHint struct {
	error
	hint string
}

func (e errorWithHint) Unwrap() error { return e.error }

// WithHint returns an error with a hint for the user.
func WithHint(err error, hint string) error {
	if hint == "" {
		return err
	}
	return errorWithHint{err, hint}
}

// PrintHint prints the hint of an error, if it has one.
func PrintHint(w io.Writer, err error) {
	if hint := HintOf(err); hint != "" {
		fmt.Fprintln(w, "hint:", hint)
	}
}

// HintOf returns the hint of an error; "" if it has none.
func HintOf(err error) string {
	helpful, _ := errors.AsType[errorWithHint](err)
	return helpful.hint
}
