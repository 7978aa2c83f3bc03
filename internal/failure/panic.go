package failure

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// panicError is a panic or a call of runtime.Goexit.
type panicError struct {
	text  string
	stack string
}

func (c *panicError) Error() string { return c.text }

// Recover runs user code and converts a panic to an error; what, such as "the handler",
// names the code. It does the same for runtime.Goexit, which t.FailNow and some
// libraries call. Goexit ends its goroutine, so do runs on a separate one. See
// [PanicStack].
func Recover(what string, do func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			switch value := recover(); {
			case value != nil:
				err = FromPanic(what+" panicked", value)
			case !returned:
				err = &panicError{what + " called runtime.Goexit, as t.FailNow does: return an error instead", string(debug.Stack())}
			}
		}()
		err = do()
		returned = true
	}()
	<-done
	return err
}

// FromPanic converts a recovered value to an error. Call it in the deferred function,
// where the stack is still that of the panic.
func FromPanic(text string, value any) error {
	return &panicError{fmt.Sprintf("%s: %v", text, value), string(debug.Stack())}
}

// PanicStack returns the stack of a recovered panic or Goexit, and reports whether err
// is one.
func PanicStack(err error) (stack string, is bool) {
	c, is := errors.AsType[*panicError](err)
	if !is {
		return "", false
	}
	return c.stack, true
}

// IsPanic reports whether err is a recovered panic or Goexit.
func IsPanic(err error) bool {
	_, is := PanicStack(err)
	return is
}
