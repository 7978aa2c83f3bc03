package dryrun

import (
	"fmt"
	"strings"
	"time"
)

// call writes a call and its result.
func (p *printer) call(c Call) {
	var notes []string
	if c.Since != nil {
		notes = append(notes, "since "+formatTime(*c.Since))
	}
	if c.Attempt > 0 {
		notes = append(notes, fmt.Sprintf("after %d failed calls", c.Attempt))
	}
	if c.DebounceSeconds > 0 {
		notes = append(notes, "debounced for "+formatSeconds(c.DebounceSeconds))
	}
	p.handlerCall(fmt.Sprintf("%s  %s%s", c.Handler, c.Reason, parenthesize(strings.Join(notes, ", "))), c.ChangedFields)
	p.level += 2
	for _, change := range c.Changes {
		p.change(change)
	}
	for _, ref := range c.Unchanged {
		p.line(1, "", "= %s  unchanged", ref)
	}
	p.events(c.Events)
	if c.NotApplicable {
		p.line(1, "", ". not applicable until the object changes")
	}
	p.problem(1, c.Error)
	p.retry(c)
	p.level -= 2
}

// handlerCall writes the handler and the changed fields of a call.
func (p *printer) handlerCall(title string, fields []FieldChange) {
	if len(fields) == 1 && !fields[0].multiline() {
		if line := fmt.Sprintf("> %s (%s)", title, fields[0].withSign()); len(line) <= maxInlineWidth {
			p.line(1, bold, "%s", line)
			return
		}
	}
	p.line(1, bold, "> %s", title)
	for _, f := range fields {
		if !f.multiline() {
			p.line(3, "", "changed %s", f.withSign())
			continue
		}
		p.line(3, "", "changed %s:", f.Path)
		p.lines(f, false)
	}
}

// retry writes when the call would be retried.
func (p *printer) retry(c Call) {
	switch {
	case c.GaveUp:
		p.line(1, "", ". no retry until the object changes")
	case c.RetryAfterSeconds > 0:
		p.line(1, "", ". retry after %s", formatSeconds(c.RetryAfterSeconds))
	case c.Error != nil:
		p.line(1, "", ". retry after a backoff")
	}
}

// timers writes the state and the scheduled calls.
func (p *printer) timers(o Object) {
	if o.RecordChanged && len(o.Calls) == 0 {
		p.line(1, yellow, "~ state of its handlers")
	}
	for _, handler := range o.GivenUp {
		p.line(1, yellow, ". %s  gave up until the object changes", handler)
	}
	for _, t := range o.Timers {
		idle := ""
		if t.IdleSeconds > 0 {
			idle = " if unchanged for " + formatSeconds(t.IdleSeconds)
		}
		p.line(1, "", ". %s  timer at %s%s", t.Handler, formatTime(t.At), idle)
	}
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func formatSeconds(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).String()
}
