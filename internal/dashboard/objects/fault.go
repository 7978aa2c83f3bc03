package objects

import (
	"cmp"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// fault is an error with advice for the user.
type fault struct {
	inspect.Advice
	// Text is the full error.
	Text string
	// Response is the response of the hook, as far as it was kept. Path is the field that the error is about.
	Response, Path string
}

// describeFault returns a fault with a title and advice. If nothing but the text is known, it has the default title.
func describeFault(text string, of *inspect.Fault, defaultTitle string) *fault {
	f := &fault{Advice: inspect.AdviceFor(of), Text: text}
	f.Title = cmp.Or(f.Title, defaultTitle)
	if of != nil {
		f.Response, f.Path = of.Body, of.Path
	}
	return f
}

const runFailedTitle = "Last run failed"
