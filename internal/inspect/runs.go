package inspect

import (
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// renderRun renders a run, with the values of Secrets that it has; whole includes requests, responses and changes.
func renderRun(run *record.Run, whole bool) Run {
	return Run{
		Controller: run.Controller,
		Object: object.Ref{Kind: object.KindOf(run.Resource), Namespace: run.Key.Namespace, Name: run.Key.Name,
			UID: strings.Clone(run.UID)},
		Causes:  run.CauseTexts(),
		Attempt: run.Attempt, TraceID: run.TraceID, Began: run.StartTime, QueuedFor: run.QueueDuration, Took: run.Duration,
		Outcome: string(run.Outcome), Error: errorLine(run.Err), Fault: record.FaultOf(run.Err), Next: run.NextRun,
		Steps: renderSteps(run.Steps, run.Resource, whole),
	}
}

// renderSteps renders the steps of a run for an object of this kind.
func renderSteps(steps []record.Step, resource object.Resource, whole bool) []Step {
	rendered := make([]Step, 0, len(steps))
	write := renderer{resource, whole}
	for i := range steps {
		rendered = append(rendered, write.step(&steps[i]))
	}
	return rendered
}

// errorLine returns an error in one line; "" for nil.
func errorLine(err error) string {
	if err == nil {
		return ""
	}
	return failure.OneLine(err)
}

// IsPrimaryCause reports whether a cause explains a run regardless of other changes: a
// manual reconcile or a new version of the hook.
func IsPrimaryCause(cause string) bool {
	return strings.HasPrefix(cause, queue.ReconcileRequested.String()) || IsLogicCause(cause)
}

// IsLogicCause reports whether a cause says that the hook, or its version, changed.
func IsLogicCause(cause string) bool {
	return strings.HasPrefix(cause, queue.LogicChanged.String()) || cause == queue.HookChanged.String()
}

// renderer renders the steps of a run for an object of a kind.
type renderer struct {
	resource object.Resource
	// whole includes requests, responses and changes.
	whole bool
}

func (w *renderer) step(s *record.Step) Step {
	step := Step{At: s.Offset, Took: s.Duration}
	switch {
	case s.Call != nil:
		step.Call = w.call(s.Call)
	case s.Plan != nil:
		step.Plan = w.plan(s.Plan)
	case s.Write != nil:
		step.Write = w.write(s.Write)
	case s.Event != nil:
		step.Event = clonePtr(s.Event)
	}
	return step
}

func (w *renderer) call(a *record.Call) *Call {
	call := &Call{Name: a.Name, Version: a.Version, Reason: string(a.Reason), Error: errorLine(a.Err), Fault: record.FaultOf(a.Err)}
	if a.Revision != (record.Revision{}) {
		call.Revision = new(a.Revision)
	}
	if code := a.Output.Code(); code.Digest != "" {
		call.Code = &code
	}
	call.Review = w.reviewOf(a)
	if w.whole {
		call.Request, call.Response = a.Request.JSON(), a.Response.JSON(a.Request.ControllerType)
		call.Output, call.OutputMore = a.Output.Lines()
	}
	return call
}

func (w *renderer) plan(p *record.Planned) *Planned {
	planned := &Planned{Unchanged: p.Equal}
	for _, stage := range p.Stages {
		for i := range stage {
			planned.Actions = append(planned.Actions, w.action(&stage[i]))
		}
	}
	return planned
}

func (w *renderer) action(a *plan.Action) Action {
	action := Action{Verb: string(a.Verb), Object: a.Resource.Ref(a.Ref.Namespace, a.Ref.Name), Reason: a.Reason}
	if !w.whole {
		return action
	}
	action.Changes, _ = plan.Diff(*a) // Without changes, if an object is malformed.
	return action
}

func (w *renderer) write(t *record.Write) *Write {
	write := &Write{Verb: string(t.Verb), Object: t.Resource.Ref(t.Ref.Namespace, t.Ref.Name), Part: t.Part, Unchanged: t.Unchanged}
	write.Error, write.Fault = errorLine(t.Err), record.FaultOf(t.Err)
	if t.Version != 0 {
		write.Version = strconv.FormatUint(t.Version, 10)
	}
	if !w.whole || t.After == nil || t.Unchanged || unknownChange(t) {
		return write
	}
	write.Changes, _ = plan.Compare(t.Before, t.After) // As above.
	return write
}

// unknownChange reports that the effect of a write is unknown: an applied object was not in
// the cache.
func unknownChange(t *record.Write) bool { return t.Verb == plan.Apply && t.Before == nil }
