package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/timeline"
)

// fewLines is how much of one kind is told of a run that is not told in full.
const fewLines = 8

// tellEntry tells of a run, or of several that failed alike: of the first of them, which
// says what caused it, and how often it failed so again.
func (t teller) tellEntry(e *entryAccount) {
	if timeline.Deletes(&e.Run) {
		t.toned(0, bold, "%s  %s", t.moment(e.Began), timeline.Deleted(e.deletedBy))
		return
	}
	if e.first != nil {
		t.tellRun(e.first)
	}
	again := len(e.Earlier)
	if e.first == nil {
		again++
	}
	if again == 0 {
		return
	}
	if e.first == nil {
		t.line(0, "%s  %s", t.moment(e.Began), because(&e.Run))
	}
	next := ""
	if !e.Next.IsZero() {
		next = "; next retry at " + t.clock(e.Next)
	}
	t.line(1, "failed in the same way %s more, the last at %s%s", plural(again, "time", "times"), t.moment(e.Began), next)
}

// tellRun tells what one run did, and why.
func (t teller) tellRun(r *runAccount) {
	by := ""
	if t.several {
		by = r.Controller + ": "
	}
	t.toned(0, bold, "%s  %s%s", t.moment(r.Began), by, because(&r.Run))
	if r.Quiet > 0 {
		t.line(1, "(%s before it found no changes)", plural(r.Quiet, "run", "runs"))
	}
	if t.full || len(r.Causes) == 0 {
		t.line(1, "run %d of %s, in the process %s; it had waited %s", int(r.ID), r.Controller, r.Process, took(r.Waited))
	}
	t.tellSteps(r)
	t.tellEnd(r)
}

// because is what brought a run about.
func because(run *inspect.Run) string {
	if len(run.Causes) == 0 {
		return "trigger not kept"
	}
	causes := slices.Clone(run.Causes)
	if timeline.Created(run) {
		for i, cause := range causes {
			if cause == objectChanged {
				causes[i] = "the object was created"
			}
		}
	}
	return strings.Join(causes, ", and ")
}

const objectChanged = "the object changed"

// tellSteps tells what a run did. What was decided is told with the write that came of
// it.
func (t teller) tellSteps(r *runAccount) {
	writes := 0
	decided := decisions(r)
	for i, step := range r.Steps {
		switch {
		case step.Ask != nil:
			t.tellAsk(r, i)
		case step.Plan != nil:
			t.tellPlan(r, step.Plan)
		case step.Event != nil:
			t.tellEvent(r, step.Event)
		case step.Write != nil:
			writes++
			if t.full || writes <= fewLines || step.Write.Error != "" {
				t.tellWrite(step, decided[place(step.Write.Verb, step.Write.Object)])
			}
		}
	}
	if left := writes - fewLines; left > 0 && !t.full {
		t.line(1, "… and %s more, which --full tells", plural(left, "write", "writes"))
	}
}

// tellEvent tells of an event; one that only repeats what went wrong has no more to say.
func (t teller) tellEvent(r *runAccount, e *inspect.Event) {
	if e.Message == r.Error {
		t.line(1, "Event %s %s", e.Type, e.Reason)
		return
	}
	t.line(1, "Event %s %s: %s", e.Type, e.Reason, e.Message)
}

// tellAsk tells what was asked, what had changed since, and what the answer was.
func (t teller) tellAsk(r *runAccount, i int) {
	step := r.Steps[i]
	ask := step.Ask
	at := ""
	if revision := timeline.Revision(r.Steps, ask); revision != "" {
		at = " at the " + revision
	}
	if ask.Review != nil {
		t.tellReview(r, step)
		return
	}
	t.line(1, "%s%s", asked(ask), at)
	before, since := t.previous(r, i)
	t.tellNews(ask, before, since)
	switch {
	case ask.Error != "":
		t.toned(2, red, "failed after %s: %s", took(step.Took), ask.Error)
	case ask.Dropped:
		t.line(2, "response after %s; request and response are not kept, for their size or age", took(step.Took))
	default:
		t.tellReply(ask, before, took(step.Took))
	}
	if t.full {
		t.document("request", ask.Request)
		t.document("reply", ask.Reply)
	}
}

// tellReview tells what a webhook of admission was asked, and decided.
func (t teller) tellReview(r *runAccount, step inspect.Step) {
	ask, review := step.Ask, step.Ask.Review
	t.line(1, "called the webhook %s of %s", ask.What, r.Controller)
	if len(review.Requested) > 0 {
		t.line(2, "requested:")
		t.changes(3, review.Requested)
	}
	switch {
	case ask.Error != "":
		t.toned(2, red, "failed after %s: %s", took(step.Took), ask.Error)
	case review.Denied:
		t.toned(2, red, "denied after %s: %s%s", took(step.Took), cmp.Or(review.Message, "no message"), prefixed(review.Reason))
	case len(review.Changes) > 0:
		t.line(2, "changed after %s:", took(step.Took))
		t.changes(3, review.Changes)
	default:
		t.line(2, "response after %s", took(step.Took))
	}
	for _, warning := range review.Warnings {
		t.line(2, "warning: %s", warning)
	}
	if t.full {
		t.document("request", ask.Request)
		t.document("reply", ask.Reply)
	}
}

// prefixed is a reason in parentheses; "" for none.
func prefixed(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// asked is a call in words.
func asked(ask *inspect.Ask) string {
	switch {
	case ask.What == "sync":
		return "called sync"
	case ask.What == "finalize", ask.What == "customize":
		return "called " + ask.What
	case ask.Reason != "":
		return "called the handler " + ask.What + ": " + told(ask.Reason)
	}
	return "called " + ask.What
}

// told is what a handler is told for a reason.
func told(reason string) string {
	switch hook.Reason(reason) {
	case hook.ReasonCreate:
		return "the object was created"
	case hook.ReasonUpdate:
		return objectChanged
	case hook.ReasonDelete:
		return "the object is being deleted"
	case hook.ReasonResume:
		return "the object was there at the start"
	case hook.ReasonTimer:
		return "a timer"
	case hook.ReasonDrift:
		return "what it had written changed"
	}
	return reason
}

// previous is the same question as it was asked before, in this run or in one that is
// kept, and when that was; nil where there is none.
func (t teller) previous(r *runAccount, i int) (before *inspect.Ask, since string) {
	ask := r.Steps[i].Ask
	if earlier := timeline.Last(r.Steps[:i], ask); earlier != nil {
		return earlier, "earlier in this run"
	}
	run, known := r.before[ask.Previous]
	if !known || run.ID == r.ID {
		return nil, ""
	}
	return timeline.Last(run.Steps, ask), "at " + t.moment(run.Began)
}

// tellNews tells what was different from the time before in what was asked.
func (t teller) tellNews(ask, before *inspect.Ask, since string) {
	if before == nil || len(before.Request) == 0 || len(ask.Request) == 0 {
		return
	}
	parts, err := diff.Requests(before.Request, ask.Request)
	if err != nil {
		return // Too large: there is nothing to be told of it.
	}
	if len(parts) == 0 {
		t.line(2, "the same request as %s", since)
		return
	}
	t.line(2, "changed since the call %s:", since)
	for i, part := range parts {
		if i == fewLines && !t.full {
			t.line(3, "… and %s more", plural(len(parts)-i, "object", "objects"))
			break
		}
		t.line(3, "%s %s", nameOf(part.Object), string(part.Fate))
		if part.Fate == diff.Changed {
			t.changes(4, part.Changes)
		}
	}
}

// tellReply tells how an answer differs from the one before.
func (t teller) tellReply(ask, before *inspect.Ask, after string) {
	if before == nil || len(before.Reply) == 0 || len(ask.Reply) == 0 {
		t.line(2, "response after %s", after)
		return
	}
	changes, err := diff.Objects(before.Reply, ask.Reply)
	switch {
	case err != nil:
		t.line(2, "response after %s", after)
	case len(changes) == 0:
		t.line(2, "response after %s, the same as before", after)
	default:
		t.line(2, "response after %s; new in it:", after)
		t.changes(3, changes)
	}
}

// changes tells of fields.
func (t teller) changes(depth int, all []inspect.Change) {
	if telling := slices.DeleteFunc(slices.Clone(all), dull); !t.full && len(telling) > 0 {
		all = telling
	}
	for i, c := range all {
		if i == fewLines && !t.full {
			t.line(depth, "… and %s more", plural(len(all)-i, "field", "fields"))
			return
		}
		t.line(depth, "%s", changed(c))
	}
}

// dull says that a change tells nobody anything: times beside what they are of, names
// that are in the path already, and what is new and empty.
func dull(c inspect.Change) bool {
	for _, end := range []string{"Time", "observedGeneration", ".type", ".name", "].apiVersion", "].kind", "ID"} {
		if strings.HasSuffix(c.Path, end) && strings.Contains(c.Path, ".") {
			return true
		}
	}
	empty := []string{"null", `""`, "{}", "[]", "0", "false"}
	return c.From == nil && slices.Contains(empty, string(c.To))
}

// changed is what became of a field.
func changed(c inspect.Change) string {
	switch {
	case c.From == nil:
		return c.Path + " is " + diff.Value(c.To)
	case c.To == nil:
		return c.Path + " is gone; it was " + diff.Value(c.From)
	}
	return c.Path + ": " + diff.Value(c.From) + " → " + diff.Value(c.To)
}

// place is a write, to find the decision that it came of.
func place(verb string, of inspect.Ref) string {
	return verb + " " + nameOf(of)
}

// decisions are what was decided in a run, by place.
func decisions(r *runAccount) map[string]inspect.Action {
	all := map[string]inspect.Action{}
	for _, step := range r.Steps {
		if step.Plan == nil {
			continue
		}
		for _, action := range step.Plan.Actions {
			all[place(action.Verb, action.Object)] = action
		}
	}
	return all
}

// tellPlan tells what was decided and came to nothing, and that there was nothing to do.
func (t teller) tellPlan(r *runAccount, p *inspect.Planned) {
	done := map[string]bool{}
	for _, step := range r.Steps {
		if w := step.Write; w != nil {
			done[place(w.Verb, w.Object)] = true
		}
	}
	if p.Equal > 0 && len(p.Actions) == 0 {
		t.line(1, "%s unchanged", plural(p.Equal, "child", "children"))
	}
	left := slices.DeleteFunc(slices.Clone(p.Actions), func(a inspect.Action) bool { return done[place(a.Verb, a.Object)] })
	for i, action := range left {
		if i == fewLines && !t.full {
			t.line(1, "… and decided %s more", plural(len(left)-i, "write", "writes"))
			return
		}
		t.line(1, "decided to %s %s%s, which was not done in this run", action.Verb, nameOf(action.Object), reason(action))
	}
}

// reason is why something was decided.
func reason(a inspect.Action) string {
	if a.Reason == "" {
		return ""
	}
	return " (" + a.Reason + ")"
}

// tellWrite tells what was written and why, or why it was not: the API server refused it,
// did not answer, or the write waits for its namespace.
func (t teller) tellWrite(step inspect.Step, decided inspect.Action) {
	w := step.Write
	what := nameOf(w.Object)
	if w.Part != "" {
		what = "the " + w.Part + " of " + what
	}
	what += reason(decided)
	switch {
	case w.Error != "":
		t.toned(1, red, "could not %s %s: %s", w.Verb, what, w.Error)
	case w.Unchanged:
		t.line(1, "%s %s, which made no difference", past(w.Verb), what)
	default:
		t.line(1, "%s %s in %s", past(w.Verb), what, took(step.Took))
	}
	if changes := slices.Concat(decided.Changes, w.Changes); t.full || decided.Verb != "create" && !removal(decided.Verb, changes) {
		t.changes(2, changes)
	}
}

// removal says that a deletion is all that there is to say: nothing follows what goes.
func removal(verb string, changes []inspect.Change) bool {
	return verb == "delete" && !slices.ContainsFunc(changes, func(c inspect.Change) bool { return c.To != nil })
}

// past is a verb of a write in the past.
func past(verb string) string {
	irregular := map[string]string{"apply": "applied"}
	switch {
	case irregular[verb] != "":
		return irregular[verb]
	case strings.HasSuffix(verb, "e"):
		return verb + "d"
	}
	return verb + "ed"
}

// tellEnd tells how a run ended, and when the next one comes.
func (t teller) tellEnd(r *runAccount) {
	again := ""
	if !r.Next.IsZero() {
		again = "; next run at " + t.clock(r.Next)
		if r.Outcome == "failed" {
			again = "; next retry at " + t.clock(r.Next)
		}
	}
	after := took(r.Took)
	switch r.Outcome {
	case "failed":
		nth := ""
		if r.Attempt > 0 {
			nth = fmt.Sprintf(", for the %s time in a row", ordinal(r.Attempt+1))
		}
		t.toned(1, red, "failed after %s%s%s", after, nth, again)
		if !toldError(r) {
			t.line(2, "%s", r.Error)
		}
	case "postponed":
		t.line(1, "postponed after %s%s", after, again)
		if r.Error != "" {
			t.line(2, "%s", r.Error)
		}
	case "skipped":
		t.line(1, "no changes%s", again)
	case "synced":
		t.line(1, "done after %s%s", after, again)
	default:
		if decision := timeline.Decision(&r.Run); decision != "" {
			t.line(1, "%s", strings.ToLower(decision[:1])+decision[1:])
			return
		}
		t.line(1, "%s after %s%s", r.Outcome, after, again)
		if r.Error != "" {
			t.line(2, "%s", r.Error)
		}
	}
}

// toldError says whether a step has told what the run failed with.
func toldError(r *runAccount) bool {
	return slices.ContainsFunc(r.Steps, func(s inspect.Step) bool {
		switch {
		case s.Ask != nil && s.Ask.Error != "":
			return strings.Contains(r.Error, s.Ask.Error)
		case s.Write != nil && s.Write.Error != "":
			return strings.Contains(r.Error, s.Write.Error)
		}
		return false
	})
}

// ordinal is such as 3rd.
func ordinal(n int) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
		return fmt.Sprintf("%dth", n)
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

// document shows JSON as it was sent.
func (t teller) document(name string, text json.RawMessage) {
	if len(text) == 0 {
		return
	}
	var lines bytes.Buffer
	if json.Indent(&lines, text, "", "  ") != nil {
		lines.Reset()
		lines.Write(text)
	}
	t.line(2, "%s:", name)
	for line := range strings.Lines(lines.String()) {
		t.line(3, "| %s", strings.TrimRight(line, "\n"))
	}
}
