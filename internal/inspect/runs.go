package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// wordsOf puts a run into words: whole with what was asked and answered and every
// field that was to change, or without.
func wordsOf(e *entry, whole bool) Run {
	run := &e.run
	words := Run{
		ID: e.id, Controller: run.Program,
		Object:  Ref{Kind: KindOf(run.Resource), Namespace: run.Key.Namespace, Name: run.Key.Name, UID: string([]byte(run.UID))},
		Causes:  causesOf(run),
		Attempt: run.Attempt, Began: run.Began, Waited: run.Waited, Took: run.Took,
		Outcome: string(run.Outcome), Error: lineOf(run.Err), Fault: trace.FaultOf(run.Err), Next: run.Next, Quiet: e.quiet,
		Steps: make([]Step, 0, len(run.Steps)),
	}
	if e.words != nil {
		words.Error, words.Fault, words.Steps = e.words.err, e.words.fault, e.words.tell(whole, e.stripped)
		return words
	}
	write := writer{of: run, whole: whole, dropped: e.stripped}
	for i := range run.Steps {
		words.Steps = append(words.Steps, write.step(&run.Steps[i]))
	}
	if refusesSecret(run) {
		words.unquote()
	}
	return words
}

// refusesSecret says whether a write to a Secret failed.
func refusesSecret(run *trace.Run) bool {
	return slices.ContainsFunc(run.Steps, func(s trace.Step) bool {
		return s.Write != nil && s.Write.Err != nil && isSecret(s.Write.Resource.APIVersion(), s.Write.Resource.Kind)
	})
}

// unquote cuts errors before what they may quote of a Secret, wherever they are told.
func (r *Run) unquote() {
	r.Error = unquoted(r.Error)
	for i := range r.Steps {
		switch s := &r.Steps[i]; {
		case s.Write != nil:
			s.Write.Error = unquoted(s.Write.Error)
		case s.Event != nil:
			s.Event.Message = unquoted(s.Event.Message)
		}
	}
}

// lineOf is an error in a line; "" for none.
func lineOf(err error) string {
	if err == nil {
		return ""
	}
	return failure.OneLine(err)
}

// causesOf are what brought a run about, what matters most first.
func causesOf(run *trace.Run) []string {
	if run.By != "" {
		return []string{run.By}
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
		return cmp.Compare(weightOf(a.Kind), weightOf(b.Kind))
	}) {
		causes = append(causes, causeOf(cause))
	}
	if more > 0 {
		causes = append(causes, fmt.Sprintf("and %d more", more))
	}
	return causes
}

// weightOf is where a cause stands among those of one run: what a person did comes first,
// then what changed, and what only the clock brought about comes last.
func weightOf(kind queue.CauseKind) int {
	switch kind {
	case queue.UserAsked, queue.HookChanged:
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

const manualReconcile = "manual reconcile"

// Leads says that a cause of a run explains it, whatever else changed before: a person, or
// another version of the hook, wanted it.
func Leads(cause string) bool { return cause == manualReconcile || cause == queue.HookChanged.String() }

// causeOf says one cause as it is read without knowing the queue.
func causeOf(cause queue.Cause) string {
	switch cause.Kind {
	case queue.Start:
		return "initial list"
	case queue.UserAsked:
		return manualReconcile
	case queue.Resync:
		return "periodic resync"
	case queue.Recheck:
		return "scheduled requeue"
	case queue.ParentChanged:
		return "the object changed"
	case queue.StatusChanged:
		return "the object's status changed"
	case queue.Retrying:
		if cause.Detail != "" {
			return "retry " + cause.Detail
		}
	}
	return cause.String()
}

// writer puts the steps of one run into words.
type writer struct {
	of    *trace.Run
	whole bool
	// dropped says that what was asked and answered is not kept any more.
	dropped bool
}

func (w *writer) step(s *trace.Step) Step {
	step := Step{At: s.At, Took: s.Took}
	switch {
	case s.Ask != nil:
		step.Ask = w.ask(s.Ask)
	case s.Plan != nil:
		step.Plan = w.plan(s.Plan)
	case s.Write != nil:
		step.Write = w.write(s.Write)
	case s.Event != nil:
		step.Event = &Event{Type: s.Event.Type, Reason: s.Event.Reason, Message: s.Event.Message}
	}
	return step
}

func (w *writer) ask(a *trace.Ask) *Ask {
	ask := &Ask{What: a.What, Reason: string(a.Reason), Error: lineOf(a.Err), Fault: trace.FaultOf(a.Err), Dropped: w.dropped}
	if a.Revision != (trace.Revision{}) {
		ask.Revision = new(a.Revision)
	}
	ask.Review = w.reviewOf(a)
	if w.whole && !w.dropped {
		ask.Request = masked(questionJSON(&a.Question), w.of.Resource)
		ask.Reply = masked(answerJSON(&a.Answer, a.Question.Form), w.of.Resource)
	}
	return ask
}

func (w *writer) plan(p *trace.Planned) *Planned {
	planned := &Planned{Equal: p.Equal}
	for _, stage := range p.Stages {
		for i := range stage {
			planned.Actions = append(planned.Actions, w.action(&stage[i]))
		}
	}
	return planned
}

func (w *writer) action(a *plan.Action) Action {
	action := Action{Verb: string(a.Verb), Object: refOf(a.Resource, a.Ref), Reason: a.Reason}
	if !w.whole {
		return action
	}
	if changes, err := plan.Diff(*a); err == nil {
		action.Changes = changesOf(changes, a.Resource)
	}
	return action
}

func (w *writer) write(t *trace.Write) *Write {
	write := &Write{Verb: string(t.Verb), Object: refOf(t.Resource, t.Ref), Part: t.Part, Unchanged: t.Unchanged}
	write.Error, write.Fault = lineOf(t.Err), trace.FaultOf(t.Err)
	if t.Version != 0 {
		write.Version = strconv.FormatUint(t.Version, 10)
	}
	if !w.whole || t.After == nil || t.Unchanged || ofUnknown(t) {
		return write
	}
	if changes, err := plan.Compare(t.Before, t.After); err == nil {
		write.Changes = changesOf(changes, t.Resource)
	}
	return write
}

// ofUnknown says that nobody knows what a write has changed: what is applied may have
// been there, and not have been in sight.
func ofUnknown(t *trace.Write) bool { return t.Verb == plan.Apply && t.Before == nil }

// refOf names an object of a kind.
func refOf(r object.Resource, ref object.Ref) Ref {
	return Ref{Kind: KindOf(r), Namespace: ref.Namespace, Name: ref.Name}
}

// changesOf puts changes into words. What a Secret holds is not among them.
func changesOf(changes []plan.Change, resource object.Resource) []Change {
	all := make([]Change, 0, len(changes))
	for _, c := range changes {
		change := Change{Path: c.Path, From: c.Before, To: c.After}
		if isSecret(resource.APIVersion(), resource.Kind) && hides(c.Path) {
			change.From, change.To = hidden(change.From), hidden(change.To)
		}
		all = append(all, change)
	}
	return all
}
