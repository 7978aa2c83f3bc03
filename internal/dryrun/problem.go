package dryrun

import (
	"cmp"
	"errors"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// newProblem puts an error into the report. What to do about it follows when it is known
// who asks: see hint.
func newProblem(err error) *Problem {
	p := &Problem{Message: err.Error(), fault: model.FaultOf(err)}
	if response, ok := errors.AsType[*hook.MalformedError](err); ok {
		p.Path = response.Path
	}
	if _, ok := errors.AsType[*compile.Refusal](err); ok {
		p.Hint = "the controller is not accepted as it is, and would do nothing"
	}
	return p
}

// delayOf is after which time a handler that failed wants to be told again; 0 where
// it does not say.
func delayOf(err error) time.Duration {
	after, _ := hook.RetryDelay(err)
	return after
}

// cliHint is what to do about a fault for a user who asks with a machine of their own,
// running what helps for a process.
func cliHint(a model.Advice) string { return cmp.Or(a.LocalHelp, a.Help) }

func processHint(a model.Advice) string { return a.Help }

// hint has each problem of the report say what to do about it.
func (r *Report) hint(words func(model.Advice) string) {
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

func hintChanges(changes []Change, words func(model.Advice) string) {
	for _, c := range changes {
		c.Error.hint(words)
	}
}

func (p *Problem) hint(words func(model.Advice) string) {
	if p != nil && p.Hint == "" {
		p.Hint = words(model.AdviceFor(p.fault))
	}
}
