package failure

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// crash is a panic, or a call of runtime.Goexit, that was made an error.
type crash struct {
	text  string
	stack string
}

func (c *crash) Error() string { return c.text }

// Contain calls author's code, named by what, such as "the handler". A panic is its
// error, and so is runtime.Goexit, which t.FailNow and some libraries call: it would
// end the goroutine of a worker, which nothing can prevent but a goroutine for the call.
// It returns when the call has. See [Crashed].
func Contain(what string, do func() error) (err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		returned := false
		defer func() {
			switch met := recover(); {
			case met != nil:
				err = Panicked(what+" panicked", met)
			case !returned:
				err = &crash{what + " called runtime.Goexit, as t.FailNow does: return an error instead", string(debug.Stack())}
			}
		}()
		err = do()
		returned = true
	}()
	<-ended
	return err
}

// Panicked makes an error of what a panic was met with. It is for the deferred function
// that met it: the stack is that of the panic.
func Panicked(text string, met any) error {
	return &crash{fmt.Sprintf("%s: %v", text, met), string(debug.Stack())}
}

// Crashed says whether an error is a contained panic or Goexit, and where that was.
func Crashed(err error) (stack string, is bool) {
	c, is := errors.AsType[*crash](err)
	if !is {
		return "", false
	}
	return c.stack, true
}

// OfPanic says that an error was a panic, or a Goexit.
func OfPanic(err error) bool {
	_, is := Crashed(err)
	return is
}
