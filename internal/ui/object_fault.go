package ui

import (
	"cmp"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// fault is an error as a reader understands it at a glance.
type fault struct {
	inspect.Advice
	// Text is the error in full.
	Text string
	// Said is what the hook answered, as far as it was kept; Path the field that the
	// error is about.
	Said, Path string
}

// explain says what an error is about. Where only its text is known, that is all there
// is to say.
func explain(text string, of *inspect.Fault, otherwise string) *fault {
	f := &fault{Advice: inspect.AdviceOn(of), Text: text}
	f.Title = cmp.Or(f.Title, otherwise)
	if of != nil {
		f.Said, f.Path = of.Said, of.Path
	}
	return f
}

// runFailed is what is said of a run that failed nobody knows why.
const runFailed = "The last run failed"
