package dashboard

import (
	"cmp"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// fault is an error as a reader understands it at a glance.
type fault struct {
	model.Advice
	// Text is the error in full.
	Text string
	// Response is what the hook answered, as far as it was kept; Path the field that the
	// error is about.
	Response, Path string
}

// describeFault says what an error is about. Where only its text is known, that is all there
// is to say.
func describeFault(text string, of *model.Fault, defaultTitle string) *fault {
	f := &fault{Advice: model.AdviceFor(of), Text: text}
	f.Title = cmp.Or(f.Title, defaultTitle)
	if of != nil {
		f.Response, f.Path = of.Body, of.Path
	}
	return f
}

// runFailedTitle is what is said of a run that failed nobody knows why.
const runFailedTitle = "Last run failed"
