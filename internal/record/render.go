package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// Masked returns the whole run as others read it, without the values of Secrets that it has seen. Tokens of the key stand for
// them, but in what identifies the run.
func (r *Run) Masked(key *redact.Key) Run {
	values, secret, rendered := r.Values(key), r.Object.GroupKind().IsSecret(), r.Render(true)
	if !values.Found() {
		return rendered
	}
	masked := redact.EachText(rendered, values.Text, func(raw json.RawMessage) json.RawMessage { return values.JSON(raw, secret) })
	masked.Controller, masked.Object, masked.Outcome = rendered.Controller, rendered.Object, rendered.Outcome
	return masked
}

// Render returns the run as others read it, with the values of Secrets that it has: texts in place of what it shares with the
// loop. Only a whole one has requests, responses, output and changes. It belongs to the caller, and rendering it again only
// removes the latter.
func (r *Run) Render(whole bool) Run {
	run := *r
	if r.Causes == nil {
		run.Causes = r.causeTexts()
	}
	run.Queued, run.Trigger, run.Secrets = queue.Causes{}, "", nil
	run.Error, run.Fault = renderError(run.Err, run.Error, run.Fault)
	run.Err = nil
	run.Steps = make([]Step, len(r.Steps))
	for i, step := range r.Steps {
		run.Steps[i] = step.render(r.Object.GroupKind(), whole)
	}
	return run
}

// renderError returns one line and the classification of an error in its place.
func renderError(err error, line string, fault *failure.Fault) (text string, of *failure.Fault) {
	if err == nil {
		return line, fault
	}
	return failure.OneLine(err), FaultOf(err)
}

func (s Step) render(about object.GroupKind, whole bool) Step {
	switch {
	case s.Call != nil:
		s.Call = s.Call.render(about, whole)
	case s.Plan != nil:
		s.Plan = s.Plan.render(whole)
	case s.Write != nil:
		s.Write = s.Write.render(whole)
	case s.Event != nil:
		s.Event = new(*s.Event)
	}
	return s
}

func (c *Call) render(about object.GroupKind, whole bool) *Call {
	call := *c
	call.Error, call.Fault = renderError(call.Err, call.Error, call.Fault)
	call.Err = nil
	if code := c.Printed.Code(); code.Digest != "" {
		call.Code = &code
	}
	switch {
	case c.Sent.Review != nil:
		call.Review = renderReview(c, about, whole)
	case c.Review != nil && !whole:
		call.Review = c.Review.brief()
	}
	switch {
	case !whole:
		call.Request, call.Response, call.Output, call.OutputMore, call.OutputHidden = nil, nil, nil, 0, false
	case !c.Sent.IsEmpty():
		call.Request, call.Response = c.Sent.JSON(), c.Received.JSON(c.Sent.ControllerType)
	}
	if whole && c.Printed != nil {
		call.Output, call.OutputMore = c.Printed.Lines()
	}
	call.Sent, call.Received, call.Printed, call.Unverified = Request{}, Response{}, nil, false
	return &call
}

func (p *Planned) render(whole bool) *Planned {
	planned := Planned{Actions: slices.Clone(p.Actions), Unchanged: p.Unchanged}
	if !whole {
		for i := range planned.Actions {
			planned.Actions[i].Changes = nil
		}
	}
	for _, a := range slices.Concat(p.Stages...) {
		action := Action{Verb: string(a.Verb), Object: a.Resource.Ref(a.Ref.Namespace, a.Ref.Name), Reason: a.Reason}
		if whole {
			action.Changes, _ = plan.Diff(a) // Without changes, if an object is malformed.
		}
		planned.Actions = append(planned.Actions, action)
	}
	return &planned
}

func (w *Write) render(whole bool) *Write {
	write := *w
	write.Error, write.Fault = renderError(write.Err, write.Error, write.Fault)
	write.Err = nil
	switch {
	case !whole:
		write.Changes = nil
	case w.After != nil && !w.Unchanged && (w.Before != nil || w.Verb != string(plan.Apply)): // Else an applied object was not cached.
		write.Changes, _ = plan.Compare(w.Before, w.After) // As above.
	}
	write.Before, write.After = nil, nil
	return &write
}

// causeTexts returns the causes of a run, the most important first.
func (r *Run) causeTexts() []string {
	if r.Trigger != "" {
		return []string{r.Trigger}
	}
	list, more := slices.Clone(r.Queued.List()), r.Queued.More()
	if r.Queued.Has(queue.Start) {
		// Objects in the initial list have not changed.
		more = 0
		list = slices.DeleteFunc(list, func(c queue.Cause) bool {
			return c.Kind == queue.Start || c.Kind == queue.ChildChanged || c.Kind == queue.RelatedChanged
		})
		list = append(list, queue.Cause{Kind: queue.Start}) // It may have been displaced by other causes.
	}
	slices.SortStableFunc(list, func(a, b queue.Cause) int { return cmp.Compare(causeRank(a.Kind), causeRank(b.Kind)) })
	causes := append([]string{}, lists.Map(list, describeCause)...)
	if more > 0 {
		causes = append(causes, fmt.Sprintf("and %d more", more))
	}
	return causes
}

// causeRank orders causes: user actions, then changes, then timers.
func causeRank(kind queue.CauseKind) int {
	switch kind {
	case queue.ReconcileRequested, queue.LogicChanged, queue.HookChanged:
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

func describeCause(cause queue.Cause) string {
	switch cause.Kind {
	case queue.ParentChanged:
		return "the object changed"
	case queue.StatusChanged:
		return "the object's status changed"
	}
	return cause.String()
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
