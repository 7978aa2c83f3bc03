package model

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// renderRun puts a run into words: whole with what was asked and answered and every
// field that was to change, or without.
func renderRun(e *entry, whole bool) Run {
	run := &e.run
	words := Run{
		ID: e.id, Controller: run.Controller,
		Object:  Ref{Kind: KindOf(run.Resource), Namespace: run.Key.Namespace, Name: run.Key.Name, UID: string([]byte(run.UID))},
		Causes:  describeCauses(run),
		Attempt: run.Attempt, Began: run.StartTime, QueuedFor: run.QueueDuration, Took: run.Duration,
		Outcome: string(run.Outcome), Error: errorLine(run.Err), Fault: record.FaultOf(run.Err), Next: run.NextRun, Noops: e.noops,
		Steps: make([]Step, 0, len(run.Steps)),
	}
	if e.rendered != nil {
		words.Error, words.Fault, words.Steps = e.rendered.err, e.rendered.fault, e.rendered.stepsFor(whole, e.stripped)
		return words
	}
	write := renderer{of: run, whole: whole, dropped: e.stripped}
	for i := range run.Steps {
		words.Steps = append(words.Steps, write.step(&run.Steps[i]))
	}
	if failedOnSecret(run) {
		words.redactQuotes()
	}
	return words
}

// failedOnSecret says whether a write to a Secret failed.
func failedOnSecret(run *record.Run) bool {
	return slices.ContainsFunc(run.Steps, func(s record.Step) bool {
		return s.Write != nil && s.Write.Err != nil && isSecret(s.Write.Resource.APIVersion(), s.Write.Resource.Kind)
	})
}

// redactQuotes cuts errors before what they may quote of a Secret, wherever they are told.
func (r *Run) redactQuotes() {
	r.Error = redactQuotes(r.Error)
	for i := range r.Steps {
		switch s := &r.Steps[i]; {
		case s.Write != nil:
			s.Write.Error = redactQuotes(s.Write.Error)
		case s.Event != nil:
			s.Event.Message = redactQuotes(s.Event.Message)
		}
	}
}

// errorLine is an error in a line; "" for none.
func errorLine(err error) string {
	if err == nil {
		return ""
	}
	return failure.OneLine(err)
}

// describeCauses are what brought a run about, what matters most first.
func describeCauses(run *record.Run) []string {
	if run.Trigger != "" {
		return []string{run.Trigger}
	}
	causes := []string{}
	list, more := slices.Clone(run.Causes.List()), run.Causes.More()
	if run.Causes.Has(queue.Start) {
		// What is seen for the first time has not changed.
		more = 0
		list = slices.DeleteFunc(list, func(c queue.Cause) bool {
			return c.Kind == queue.Start || c.Kind == queue.ChildChanged || c.Kind == queue.RelatedChanged
		})
		list = append(list, queue.Cause{Kind: queue.Start}) // Many children may have displaced it.
	}
	for _, cause := range slices.SortedStableFunc(slices.Values(list), func(a, b queue.Cause) int {
		return cmp.Compare(causeRank(a.Kind), causeRank(b.Kind))
	}) {
		causes = append(causes, describeCause(cause))
	}
	if more > 0 {
		causes = append(causes, fmt.Sprintf("and %d more", more))
	}
	return causes
}

// causeRank is where a cause stands among those of one run: what a person did comes first,
// then what changed, and what only the clock brought about comes last.
func causeRank(kind queue.CauseKind) int {
	switch kind {
	case queue.ReconcileRequested, queue.HookChanged:
		return 0
	case queue.ParentChanged:
		return 1
	case queue.ChildChanged, queue.RelatedChanged:
		return 2
	case queue.StatusChanged:
		return 3
	case queue.Retrying:
		return 5
	}
	return 4
}

// IsPrimaryCause says that a cause of a run explains it, whatever else changed before: a person, or
// another version of the hook, wanted it.
func IsPrimaryCause(cause string) bool {
	return cause == queue.ReconcileRequested.String() || cause == queue.HookChanged.String()
}

// describeCause says one cause as it is read without knowing the queue.
func describeCause(cause queue.Cause) string {
	switch cause.Kind {
	case queue.ParentChanged:
		return "the object changed"
	case queue.StatusChanged:
		return "the object's status changed"
	}
	return cause.String()
}

// renderer puts the steps of one run into words.
type renderer struct {
	of    *record.Run
	whole bool
	// dropped says that what was asked and answered is not kept any more.
	dropped bool
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
		step.Event = &Event{Type: s.Event.Type, Reason: s.Event.Reason, Message: s.Event.Message}
	}
	return step
}

func (w *renderer) call(a *record.Call) *Call {
	ask := &Call{Name: a.Name, Reason: string(a.Reason), Error: errorLine(a.Err), Fault: record.FaultOf(a.Err), Dropped: w.dropped}
	if a.Revision != (record.Revision{}) {
		ask.Revision = new(a.Revision)
	}
	ask.Review = w.reviewOf(a)
	if w.whole && !w.dropped {
		ask.Request = maskSecrets(requestJSON(&a.Request), w.of.Resource)
		ask.Response = maskSecrets(responseJSON(&a.Response, a.Request.ControllerType), w.of.Resource)
	}
	return ask
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
	action := Action{Verb: string(a.Verb), Object: refOf(a.Resource, a.Ref), Reason: a.Reason}
	if !w.whole {
		return action
	}
	if changes, err := plan.Diff(*a); err == nil {
		action.Changes = maskChanges(changes, a.Resource)
	}
	return action
}

func (w *renderer) write(t *record.Write) *Write {
	write := &Write{Verb: string(t.Verb), Object: refOf(t.Resource, t.Ref), Part: t.Part, Unchanged: t.Unchanged}
	write.Error, write.Fault = errorLine(t.Err), record.FaultOf(t.Err)
	if t.Version != 0 {
		write.Version = strconv.FormatUint(t.Version, 10)
	}
	if !w.whole || t.After == nil || t.Unchanged || unknownChange(t) {
		return write
	}
	if changes, err := plan.Compare(t.Before, t.After); err == nil {
		write.Changes = maskChanges(changes, t.Resource)
	}
	return write
}

// unknownChange says that nobody knows what a write has changed: what is applied may have
// been there, and not have been in sight.
func unknownChange(t *record.Write) bool { return t.Verb == plan.Apply && t.Before == nil }

// refOf names an object of a kind.
func refOf(r object.Resource, ref object.Ref) Ref {
	return Ref{Kind: KindOf(r), Namespace: ref.Namespace, Name: ref.Name}
}

// maskChanges masks the values in changes of a Secret.
func maskChanges(changes []Change, resource object.Resource) []Change {
	for i := range changes {
		if c := &changes[i]; isSecret(resource.APIVersion(), resource.Kind) && isSensitive(c.Path) {
			c.From, c.To = maskValue(c.From), maskValue(c.To)
		}
	}
	return changes
}
