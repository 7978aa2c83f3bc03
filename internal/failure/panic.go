package failure

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// panicError is a panic, or a call of runtime.Goexit, that was made an error.
type panicError struct {
	text  string
	stack string
}

func (c *panicError) Error() string { return c.text }

// Recover calls author's code, named by what, such as "the handler". A panic is its
// error, and so is runtime.Goexit, which t.FailNow and some libraries call: it would
// end the goroutine of a worker, which nothing can prevent but a goroutine for the call.
// It returns when the call has. See [PanicStack].
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

// FromPanic makes an error of what a panic was met with. It is for the deferred function
// that met it: the stack is that of the panic.
func FromPanic(text string, value any) error {
	return &panicError{fmt.Sprintf("%s: %v", text, value), string(debug.Stack())}
}

// PanicStack says whether an error is a contained panic or Goexit, and where that was.
func PanicStack(err error) (stack string, is bool) {
	c, is := errors.AsType[*panicError](err)
	if !is {
		return "", false
	}
	return c.stack, true
}

// IsPanic says that an error was a panic, or a Goexit.
func IsPanic(err error) bool {
	_, is := PanicStack(err)
	return is
}
