package dryrun

import (
	"cmp"
	"errors"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// newProblem returns the problem of an error. hint adds what to do.
func newProblem(err error) *Problem {
	p := &Problem{Message: err.Error(), fault: inspect.FaultOf(err)}
	if response, ok := errors.AsType[*hook.MalformedError](err); ok {
		p.Path = response.Path
	}
	if _, ok := errors.AsType[*compile.Refusal](err); ok {
		p.Hint = "the controller is not accepted, so it does nothing"
	}
	return p
}

// delayOf returns the retry delay that a handler chose; 0 for none.
func delayOf(err error) time.Duration {
	after, _ := hook.RetryDelay(err)
	return after
}

// cliHint returns a hint for the command line, which runs on the user's machine; running returns
// one for a process.
func cliHint(a inspect.Advice) string { return cmp.Or(a.LocalHelp, a.Help) }

func processHint(a inspect.Advice) string { return a.Help }

// hint adds a hint to each problem of the report.
func (r *Report) hint(words func(inspect.Advice) string) {
	for _, c := range r.Controllers {
		c.Error.hint(words)
		for _, o := range c.Objects {
			o.Error.hint(words)
			hintChanges(o.Changes, words)
			for _, call := range o.Calls {
				call.Error.hint(words)
				hintChanges(call.Changes, words)
			}
		}
	}
}

func hintChanges(changes []Change, words func(inspect.Advice) string) {
	for _, c := range changes {
		c.Error.hint(words)
	}
}

func (p *Problem) hint(words func(inspect.Advice) string) {
	if p != nil && p.Hint == "" {
		p.Hint = words(inspect.AdviceFor(p.fault))
	}
}
