package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/diff"
)

// fewLines is how much of one kind is told of a run that is not told in full.
const fewLines = 8

// tellRun tells what one run did, and why.
func (t teller) tellRun(r *runAccount) {
	because := strings.Join(r.Causes, ", and ")
	if because == "" {
		because = "for a reason that is not kept"
	}
	t.line(0, "%s  %s", t.clock(r.Began), because)
	if r.Quiet > 0 {
		t.line(1, "(%s before it found nothing new.)", plural(r.Quiet, "run", "runs"))
	}
	if t.full || len(r.Causes) == 0 {
		t.line(1, "run %d of %s, in the process %s; it had waited %s", int(r.ID), r.Controller, r.Process, took(r.Waited))
	}
	t.tellSteps(r)
	t.tellEnd(r)
}

// tellSteps tells what a run did, like things together.
func (t teller) tellSteps(r *runAccount) {
	writes := 0
	for _, step := range r.Steps {
		switch {
		case step.Ask != nil:
			t.tellAsk(r, step)
		case step.Plan != nil:
			t.tellPlan(step.Plan)
		case step.Event != nil:
			t.line(1, "told at the object: %s %s: %s", step.Event.Type, step.Event.Reason, step.Event.Message)
		case step.Write != nil:
			if writes++; t.full || writes <= fewLines || step.Write.Error != "" {
				t.tellWrite(step)
			}
		}
	}
	if left := writes - fewLines; left > 0 && !t.full {
		t.line(1, "… and %s more, which --full tells", plural(left, "write", "writes"))
	}
}

// tellAsk tells what was asked, what had changed since, and what the answer was.
func (t teller) tellAsk(r *runAccount, step inspect.Step) {
	ask := step.Ask
	t.line(1, "%s", asked(ask))
	before := previous(r, ask)
	t.tellNews(r, ask, before)
	switch {
	case ask.Error != "":
		t.line(2, "that failed after %s: %s", took(step.Took), ask.Error)
	case ask.Dropped:
		t.line(2, "it answered after %s; what was said is too long to be kept", took(step.Took))
	default:
		t.tellReply(ask, before, took(step.Took))
	}
	if t.full {
		t.document("request", ask.Request)
		t.document("reply", ask.Reply)
	}
}

// asked is a question in words.
func asked(ask *inspect.Ask) string {
	switch {
	case ask.What == "sync":
		return "asked sync what should be"
	case ask.What == "finalize":
		return "asked finalize what should be left of it"
	case ask.What == "customize":
		return "asked customize what else to look at"
	case ask.Reason != "":
		return "told the handler " + ask.What + ": " + ask.Reason
	}
	return "asked " + ask.What
}

// previous is the same question in the run in which it was asked before; nil where that
// is not kept.
func previous(r *runAccount, ask *inspect.Ask) *inspect.Ask {
	run, known := r.before[ask.Previous]
	if !known {
		return nil
	}
	for _, step := range run.Steps {
		if step.Ask != nil && step.Ask.What == ask.What && step.Ask.Reason == ask.Reason {
			return step.Ask
		}
	}
	return nil
}

// tellNews tells what was different from the time before in what was asked.
func (t teller) tellNews(r *runAccount, ask, before *inspect.Ask) {
	if before == nil || len(before.Request) == 0 || len(ask.Request) == 0 {
		return
	}
	parts, err := diff.Requests(before.Request, ask.Request)
	if err != nil {
		return // Too large: there is nothing to be told of it.
	}
	since := t.clock(r.before[ask.Previous].Began)
	if len(parts) == 0 {
		t.line(2, "nothing of what it is shown had changed since it was asked at %s", since)
		return
	}
	t.line(2, "since it was asked at %s:", since)
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
		t.line(2, "it answered after %s", after)
		return
	}
	changes, err := diff.Objects(before.Reply, ask.Reply)
	switch {
	case err != nil:
		t.line(2, "it answered after %s", after)
	case len(changes) == 0:
		t.line(2, "it answered after %s, the same as before", after)
	default:
		t.line(2, "it answered after %s; of the answer is new:", after)
		t.changes(3, changes)
	}
}

// changes tells of fields.
func (t teller) changes(depth int, all []inspect.Change) {
	for i, c := range all {
		if i == fewLines && !t.full {
			t.line(depth, "… and %s more", plural(len(all)-i, "field", "fields"))
			return
		}
		t.line(depth, "%s", changed(c))
	}
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

// tellPlan tells what was decided.
func (t teller) tellPlan(p *inspect.Planned) {
	switch {
	case len(p.Actions) == 0 && p.Equal == 0:
		t.line(1, "there was nothing to do")
		return
	case len(p.Actions) == 0:
		t.line(1, "%s as it should be", counted(p.Equal))
		return
	}
	also := ""
	if p.Equal > 0 {
		also = "; " + counted(p.Equal) + " as it should be"
	}
	t.line(1, "decided%s:", also)
	for i, action := range p.Actions {
		if i == fewLines && !t.full {
			t.line(2, "… and %s more", plural(len(p.Actions)-i, "write", "writes"))
			return
		}
		reason := ""
		if action.Reason != "" {
			reason = ": " + action.Reason
		}
		t.line(2, "%s %s%s", action.Verb, nameOf(action.Object), reason)
		t.changes(3, action.Changes)
	}
}

func counted(n int) string {
	if n == 1 {
		return "1 child is"
	}
	return fmt.Sprintf("%d children are each", n)
}

// tellWrite tells what was written, and what the API server said.
func (t teller) tellWrite(step inspect.Step) {
	w := step.Write
	what := nameOf(w.Object)
	if w.Part != "" {
		what = "the " + w.Part + " of " + what
	}
	switch {
	case w.Error != "":
		t.line(1, "the API server refused to %s %s: %s", w.Verb, what, w.Error)
	case w.Unchanged:
		t.line(1, "%s %s, which made no difference", past(w.Verb), what)
	default:
		t.line(1, "%s %s (%s)", past(w.Verb), what, took(step.Took))
	}
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
		again = "; it comes again at " + t.clock(r.Next)
	}
	after := took(r.Took)
	switch r.Outcome {
	case "failed":
		nth := ""
		if r.Attempt > 0 {
			nth = fmt.Sprintf(", for the %s time in a row", ordinal(r.Attempt+1))
		}
		t.line(1, "failed after %s%s%s", after, nth, again)
		if !toldError(r) {
			t.line(2, "%s", r.Error)
		}
	case "postponed":
		t.line(1, "not all is done after %s%s", after, again)
		if r.Error != "" {
			t.line(2, "%s", r.Error)
		}
	case "skipped":
		t.line(1, "nothing was new after all%s", again)
	case "synced":
		t.line(1, "done after %s%s", after, again)
	default:
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
