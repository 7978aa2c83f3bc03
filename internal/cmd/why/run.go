package why

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// maxLines is the most lines of one kind printed without --full.
const maxLines = 8

// printEntry prints a run, or the first of several identical failures and their number.
func (t printer) printEntry(e *historyEntry) {
	if timeline.IsDeletion(&e.Run) {
		t.styled(0, output.Bold, "%s  %s", t.moment(e.Began), timeline.DeletedText(e.deletedBy))
		return
	}
	if e.first != nil {
		t.printRun(e.first)
	}
	again := len(e.Earlier)
	if e.first == nil {
		again++
	}
	if again == 0 {
		return
	}
	if e.first == nil {
		t.line(0, "%s  %s", t.moment(e.Began), triggerOf(&e.Run))
	}
	next := ""
	if !e.Next.IsZero() {
		next = "; next retry at " + t.clock(e.Next)
	}
	t.line(1, "%s, the last at %s%s", output.Plural(again, "more identical failure", "more identical failures"), t.moment(e.Began), next)
}

// printRun prints one run.
func (t printer) printRun(r *runDetails) {
	by := ""
	if t.several {
		by = r.Controller + ": "
	}
	t.styled(0, output.Bold, "%s  %s%s", t.moment(r.Began), by, triggerOf(&r.Run))
	if r.Noops > 0 {
		t.line(1, "(%s without changes before it)", output.Plural(r.Noops, "run", "runs"))
	}
	if t.full || len(r.Causes) == 0 {
		t.line(1, "run %d of %s in the process %s, queued for %s", int(r.ID), r.Controller, r.Process, output.PreciseDuration(r.QueuedFor))
	}
	if len(r.missing) > 0 {
		t.readable = ", as far as you can get the objects"
		t.line(1, "some objects have only their names here: %s", strings.Join(r.missing, "; "))
	}
	t.printSteps(r)
	t.printOutcome(r)
}

// triggerOf returns what triggered a run.
func triggerOf(run *inspect.Run) string {
	if len(run.Causes) == 0 {
		return "unknown trigger"
	}
	causes := slices.Clone(run.Causes)
	if timeline.IsCreation(run) {
		for i, cause := range causes {
			if cause == objectChanged {
				causes[i] = "the object was created"
			}
		}
	}
	return strings.Join(causes, ", and ")
}

const objectChanged = "the object changed"

// printSteps prints the steps of a run. An action is printed with its write.
func (t printer) printSteps(r *runDetails) {
	writes := 0
	decided := actionsByWrite(r)
	for i, step := range r.Steps {
		switch {
		case step.Call != nil:
			t.printCall(r, i)
			t.document("request", step.Call.Request)
			t.document("response", step.Call.Response)
		case step.Plan != nil:
			t.printPlan(r, step.Plan)
		case step.Event != nil:
			t.printEvent(r, step.Event)
		case step.Write != nil:
			writes++
			if t.full || writes <= maxLines || step.Write.Error != "" {
				t.printWrite(step, decided[writeKey(step.Write.Verb, step.Write.Object)])
			}
		}
	}
	if left := writes - maxLines; left > 0 && !t.full {
		t.line(1, "… and %s more; --full shows all", output.Plural(left, "write", "writes"))
	}
}

// printEvent prints an event, without its message if that repeats the error of the run.
func (t printer) printEvent(r *runDetails, e *hook.Event) {
	if e.Message == r.Error {
		t.line(1, "Event %s %s", e.Type, e.Reason)
		return
	}
	t.line(1, "Event %s %s: %s", e.Type, e.Reason, e.Message)
}

// printCall prints a call: the changes in its request, and its response.
func (t printer) printCall(r *runDetails, i int) {
	step := r.Steps[i]
	call := step.Call
	at := ""
	if revision := timeline.RevisionLabel(r.Steps, call); revision != "" {
		at = " at the " + revision
	}
	if call.Review != nil {
		t.printReview(r, step)
		return
	}
	t.line(1, "%s%s", callText(call), at)
	before, since := t.previousCall(r, i)
	t.printRequestChanges(call, before, since)
	switch {
	case call.Error != "":
		t.styled(2, output.Red, "failed after %s: %s", output.PreciseDuration(step.Took), call.Error)
		if len(call.Response) > 0 {
			t.printResponse(call, before, output.PreciseDuration(step.Took))
		}
	case call.Dropped:
		t.line(2, "response after %s; request and response are no longer kept", output.PreciseDuration(step.Took))
	default:
		t.printResponse(call, before, output.PreciseDuration(step.Took))
	}
}

// printReview prints a call of an admission webhook and its decision.
func (t printer) printReview(r *runDetails, step inspect.Step) {
	call, review := step.Call, step.Call.Review
	t.line(1, "called the webhook %s of %s", call.Name, r.Controller)
	if len(review.Requested) > 0 {
		t.line(2, "requested:")
		t.changes(3, review.Requested)
	}
	switch {
	case call.Error != "":
		t.styled(2, output.Red, "failed after %s: %s", output.PreciseDuration(step.Took), call.Error)
	case review.Denied:
		t.styled(2, output.Red, "denied after %s: %s%s", output.PreciseDuration(step.Took), cmp.Or(review.Message, "no message"),
			parenthesized(review.Reason))
	case len(review.Changes) > 0:
		t.line(2, "changed after %s:", output.PreciseDuration(step.Took))
		t.changes(3, review.Changes)
	default:
		t.line(2, "response after %s", output.PreciseDuration(step.Took))
	}
	for _, warning := range review.Warnings {
		t.line(2, "warning: %s", warning)
	}
}

// parenthesized returns a reason in parentheses; "" for none.
func parenthesized(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// callText returns a call for a sentence.
func callText(call *inspect.Call) string {
	if call.Reason != "" {
		return "called the handler " + call.Name + ": " + reasonText(call.Reason)
	}
	return "called " + call.Name + parenthesized(call.Version)
}

// reasonText describes the reason for which a handler is called.
func reasonText(reason string) string {
	return cmp.Or(map[hook.Reason]string{
		hook.ReasonCreate: "the object was created", hook.ReasonUpdate: objectChanged, hook.ReasonDelete: "the object is being deleted",
		hook.ReasonResume: "the object existed at startup", hook.ReasonTimer: "a timer", hook.ReasonDrift: "a child changed",
		hook.ReasonRelated: "a related object changed", hook.ReasonEvent: "an event", hook.ReasonMatch: "whether it handles the object",
		hook.ReasonDaemon: "its daemon",
	}[hook.Reason(reason)], reason)
}

// previousCall returns the previous comparable call, in this run or a recorded one, and
// when it was; nil if there is none.
func (t printer) previousCall(r *runDetails, i int) (before *inspect.Call, since string) {
	call := r.Steps[i].Call
	if earlier := inspect.LastComparable(r.Steps[:i], call); earlier != nil {
		return earlier, "earlier in this run"
	}
	run, known := r.before[call.Previous]
	if !known || run.ID == r.ID {
		return nil, ""
	}
	return inspect.LastComparable(run.Steps, call), "at " + t.moment(run.Began)
}

// printRequestChanges prints what changed in the request since the previous call.
func (t printer) printRequestChanges(call, before *inspect.Call, since string) {
	if before == nil || len(before.Request) == 0 || len(call.Request) == 0 {
		return
	}
	parts, err := diff.Requests(before.Request, call.Request)
	if err != nil {
		return // The requests are too large to compare.
	}
	logic := t.printLogicChange(call, before)
	if len(parts) == 0 {
		if logic {
			t.line(2, "nothing else changed since the call %s", since)
			return
		}
		t.line(2, "the same request as %s%s%s", since, t.readable, unseenCode(call, before))
		return
	}
	t.line(2, "changed since the call %s:", since)
	for i, part := range parts {
		if i == maxLines && !t.full {
			t.line(3, "… and %s more", output.Plural(len(parts)-i, "object", "objects"))
			break
		}
		t.line(3, "%s %s", client.NameOf(part.Object), string(part.Type))
		if part.Type == diff.Modified {
			t.changes(4, part.Changes)
		}
	}
}

// unseenCode says that the code of a hook may have changed, where the same request has another outcome.
func unseenCode(call, before *inspect.Call) string {
	if call.Error == before.Error || !timeline.CompareCode(before, call).Unseen {
		return ""
	}
	return "; Setpoint cannot see the hook's code"
}

// printLogicChange prints what changed in the code that is called, and reports whether something did.
func (t printer) printLogicChange(call, before *inspect.Call) (changed bool) {
	if before.Version != call.Version {
		t.line(2, "the version of the hooks changed: %s → %s", cmp.Or(before.Version, "none"), cmp.Or(call.Version, "none"))
		changed = true
	}
	if code := timeline.CompareCode(before, call); !code.Since.IsZero() {
		t.line(2, "the code of %s changed, at %s", code.Hook, t.clock(code.Since))
		t.printTextDiff(code.Diff)
		changed = true
	}
	return changed
}

// printTextDiff prints the lines of a diff.
func (t printer) printTextDiff(text diff.Text) {
	for i, l := range text.Lines {
		if i == 2*maxLines && !t.full {
			t.line(3, "… and %s more", output.Plural(len(text.Lines)-i, "line", "lines"))
			return
		}
		switch l.Sign {
		case '@':
			t.line(3, "…")
		case '+':
			t.styled(3, output.Green, "+ %s", l.Text)
		case '-':
			t.styled(3, output.Red, "- %s", l.Text)
		default:
			t.line(3, "  %s", l.Text)
		}
	}
}

// printResponse prints what is new in the response since the previous call.
func (t printer) printResponse(call, before *inspect.Call, after string) {
	if before == nil || len(before.Response) == 0 || len(call.Response) == 0 {
		t.line(2, "response after %s", after)
		return
	}
	changes, err := diff.Objects(before.Response, call.Response)
	changes = inspect.WithoutRedacted(changes)
	switch {
	case err != nil:
		t.line(2, "response after %s", after)
	case len(changes) == 0:
		t.line(2, "response after %s, the same as before%s", after, t.readable)
	default:
		t.line(2, "response after %s; new in it:", after)
		t.changes(3, changes)
	}
}

// changes prints changed fields.
func (t printer) changes(depth int, all []inspect.Change) {
	if !t.full {
		all = slices.DeleteFunc(slices.Clone(all), func(c inspect.Change) bool { return lasthandled.IsPath(c.Path) })
	}
	if telling := slices.DeleteFunc(slices.Clone(all), isTrivial); !t.full && len(telling) > 0 {
		all = telling
	}
	for i, c := range all {
		if i == maxLines && !t.full {
			t.line(depth, "… and %s more", output.Plural(len(all)-i, "field", "fields"))
			return
		}
		t.line(depth, "%s", diff.Change(c))
	}
}

// isTrivial reports whether a change carries no information: timestamps, names that are
// part of the path, and new empty values.
func isTrivial(c inspect.Change) bool {
	for _, end := range []string{"Time", "observedGeneration", ".type", ".name", "].apiVersion", "].kind", "ID"} {
		if strings.HasSuffix(c.Path, end) && strings.Contains(c.Path, ".") {
			return true
		}
	}
	empty := []string{"null", `""`, "{}", "[]", "0", "false"}
	return c.From == nil && slices.Contains(empty, string(c.To))
}

// writeKey identifies a write, to find the action it executes.
func writeKey(verb string, of object.Ref) string {
	return verb + " " + client.NameOf(of)
}

// actionsByWrite returns the planned actions of a run by writeKey.
func actionsByWrite(r *runDetails) map[string]inspect.Action {
	all := map[string]inspect.Action{}
	for _, step := range r.Steps {
		if step.Plan == nil {
			continue
		}
		for _, action := range step.Plan.Actions {
			all[writeKey(action.Verb, action.Object)] = action
		}
	}
	return all
}

// printPlan prints the number of unchanged children, and the actions that were not
// executed.
func (t printer) printPlan(r *runDetails, p *record.Planned) {
	done := map[string]bool{}
	for _, step := range r.Steps {
		if w := step.Write; w != nil {
			done[writeKey(w.Verb, w.Object)] = true
		}
	}
	if p.Unchanged > 0 && len(p.Actions) == 0 {
		t.line(1, "%s unchanged", output.Plural(p.Unchanged, "child", "children"))
	}
	left := slices.DeleteFunc(slices.Clone(p.Actions), func(a inspect.Action) bool { return done[writeKey(a.Verb, a.Object)] })
	for i, action := range left {
		if i == maxLines && !t.full {
			t.line(1, "… and %s more planned", output.Plural(len(left)-i, "write", "writes"))
			return
		}
		t.line(1, "planned to %s %s%s, not executed in this run", action.Verb, client.NameOf(action.Object), parenthesized(action.Reason))
	}
}

// printWrite prints a write or its error, and the changes it made.
func (t printer) printWrite(step inspect.Step, decided inspect.Action) {
	w := step.Write
	what := client.NameOf(w.Object)
	if w.Part != "" {
		what = "the " + w.Part + " of " + what
	}
	what += parenthesized(decided.Reason)
	switch {
	case w.Error != "":
		t.styled(1, output.Red, "could not %s %s: %s", w.Verb, what, w.Error)
	case w.Unchanged:
		t.line(1, "%s %s, without changes", timeline.PastTense(w.Verb), what)
	default:
		t.line(1, "%s %s in %s", timeline.PastTense(w.Verb), what, output.PreciseDuration(step.Took))
	}
	changes := slices.Concat(decided.Changes, w.Changes)
	sets := func(c inspect.Change) bool { return c.To != nil } // A deletion removes all fields.
	if t.full || decided.Verb != "create" && (decided.Verb != "delete" || slices.ContainsFunc(changes, sets)) {
		t.changes(2, changes)
	}
}

// printOutcome prints the outcome of a run and the time of the next one.
func (t printer) printOutcome(r *runDetails) {
	again := ""
	if !r.Next.IsZero() {
		again = "; next run at " + t.clock(r.Next)
		if r.Outcome == "failed" {
			again = "; next retry at " + t.clock(r.Next)
		}
	}
	if r.TraceID != "" {
		t.line(1, "trace %s", r.TraceID)
	}
	after := output.PreciseDuration(r.Took)
	decision := timeline.Decision(&r.Run)
	switch {
	case r.Outcome == "failed":
		nth := ""
		if r.Attempt > 0 {
			nth = fmt.Sprintf(", at attempt %d", r.Attempt+1)
		}
		t.styled(1, output.Red, "failed after %s%s%s", after, nth, again)
	case r.Outcome == "skipped":
		t.line(1, "no changes%s", again)
	case r.Outcome == "synced":
		t.line(1, "done after %s%s", after, again)
	case decision != "":
		t.line(1, "%s", strings.ToLower(decision[:1])+decision[1:])
	default:
		t.line(1, "%s after %s%s", r.Outcome, after, again)
	}
	if r.Error != "" && !errorPrinted(r) {
		t.line(2, "%s", r.Error)
	}
}

// errorPrinted reports whether a step has already printed the error of the run.
func errorPrinted(r *runDetails) bool {
	return slices.ContainsFunc(r.Steps, func(s inspect.Step) bool {
		switch {
		case s.Call != nil && s.Call.Error != "":
			return strings.Contains(r.Error, s.Call.Error)
		case s.Write != nil && s.Write.Error != "":
			return strings.Contains(r.Error, s.Write.Error)
		}
		return false
	})
}

// document prints JSON as it was sent, with --full.
func (t printer) document(name string, text json.RawMessage) {
	if !t.full || len(text) == 0 {
		return
	}
	lines, _ := object.Indent(text)
	t.line(2, "%s:", name)
	for line := range strings.Lines(string(lines)) {
		t.line(3, "| %s", strings.TrimRight(line, "\n"))
	}
}
