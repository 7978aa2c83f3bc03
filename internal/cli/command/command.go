// Package command is what every command has: the streams and the exit code of its invocation, errors with hints, signals,
// arguments, and the version of the program.
package command

import "io"

// Invocation is one invocation of the command line.
type Invocation struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Code is the exit code set by a command that chooses its own.
	Code int
}
