package dryrun

import (
	"cmp"
	"errors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// newProblem returns the problem of an error. hint adds what to do.
func newProblem(err error) *Problem {
	p := &Problem{Message: err.Error(), fault: record.FaultOf(err)}
	if response, ok := errors.AsType[*hook.MalformedError](err); ok {
		p.Path = response.Path
	}
	if _, ok := errors.AsType[*compile.Refusal](err); ok {
		p.Hint = "the controller is not accepted, so it does nothing"
	}
	return p
}

// cliHint returns a hint for the command line, which runs on the user's machine; running returns
// one for a process.
func cliHint(a inspect.Advice) string { return cmp.Or(a.LocalHelp, a.Help) }

func processHint(a inspect.Advice) string { return a.Help }

// hint adds a hint to each problem of the report.
func (r *Report) hint(words func(inspect.Advice) string) {
	r.eachProblem(func(p *Problem) { p.Hint = cmp.Or(p.Hint, words(inspect.AdviceFor(p.fault))) })
}

// eachProblem visits what has failed.
func (r *Report) eachProblem(visit func(*Problem)) {
	see := func(p *Problem) {
		if p != nil {
			visit(p)
		}
	}
	for _, c := range r.Controllers {
		see(c.Error)
		for i := range c.Objects {
			o := &c.Objects[i]
			see(o.Error)
			for _, call := range o.Calls {
				see(call.Error)
			}
			o.eachChange(func(c *Change) { see(c.Error) })
		}
	}
}

// eachChange visits the changes of other objects, by the object's hook and by its handlers.
func (o *Object) eachChange(visit func(*Change)) {
	all := [][]Change{o.Changes}
	for _, call := range o.Calls {
		all = append(all, call.Changes)
	}
	for _, changes := range all {
		for i := range changes {
			visit(&changes[i])
		}
	}
}
