package starlark

import (
	"errors"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/setpoint-dev/setpoint/internal/script"
)

// The reasons for which a thread is cancelled.
const (
	tooDeep = "too many nested calls"
	tooLate = "out of time"
	// cancelled is what the engine says before them.
	cancelled = "Starlark computation cancelled: "
)

// maxFrames bounds the stack of an error.
const maxFrames = 20

// asError adds the place where the author's code failed.
func asError(err error) error {
	var (
		syntaxError syntax.Error
		names       resolve.ErrorList
		failed      *starlark.EvalError
	)
	switch {
	// The innermost: an error of a file that another one loads has both.
	case errors.As(err, &syntaxError):
		return at(syntaxError.Pos, syntaxError.Msg)
	case errors.As(err, &names):
		return at(names[0].Pos, names[0].Msg)
	case errors.As(err, &failed):
		for inner := failed; errors.As(inner.Unwrap(), &inner); {
			failed = inner
		}
		return fromStack(failed)
	}
	return &script.Error{Message: err.Error()}
}

func at(position syntax.Position, message string) *script.Error {
	return &script.Error{File: position.Filename(), Line: int(position.Line), Column: int(position.Col), Message: message}
}

func fromStack(failed *starlark.EvalError) *script.Error {
	e := &script.Error{Message: script.OneLine(failed.Msg)}
	switch failed.Msg {
	case cancelled + tooDeep:
		e.Message, e.Limit = tooDeep, "the depth of calls"
	case cancelled + tooLate:
		e.Message, e.Limit = tooLate, script.TimeLimit
	}
	for i := range min(len(failed.CallStack), maxFrames) {
		frame := failed.CallStack.At(i)
		place := at(frame.Pos, "")
		switch {
		case frame.Pos.Line == 0:
			e.Stack = append(e.Stack, frame.Name+" (native)")
			continue
		case frame.Name == "<toplevel>":
			e.Stack = append(e.Stack, place.Place())
		default:
			e.Stack = append(e.Stack, frame.Name+" ("+place.Place()+")")
		}
		if e.File == "" {
			e.File, e.Line, e.Column = place.File, place.Line, place.Column
		}
	}
	return e
}
