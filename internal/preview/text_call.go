package preview

import (
	"fmt"
	"strings"
	"time"
)

// call writes whom one call would be to, what about, and what would come of it.
func (p *printer) call(c Call) {
	var asides []string
	if c.Since != nil {
		asides = append(asides, "since "+moment(*c.Since))
	}
	if c.Attempt > 0 {
		asides = append(asides, fmt.Sprintf("after %d that failed", c.Attempt))
	}
	if c.SettleSeconds > 0 {
		asides = append(asides, "once settled for "+span(c.SettleSeconds))
	}
	p.told(fmt.Sprintf("%s  %s%s", c.Handler, c.Reason, inBrackets(strings.Join(asides, ", "))), c.Told)
	p.level += 2
	for _, change := range c.Changes {
		p.change(change)
	}
	for _, ref := range c.Same {
		p.line(1, "", "= %s  as it is", ref)
	}
	p.events(c.Events)
	p.problem(1, c.Error)
	p.again(c)
	p.level -= 2
}

// told writes whom a call is to, and the fields that the handler is told of.
func (p *printer) told(title string, fields []Field) {
	if len(fields) == 1 && !fields[0].long() {
		if line := fmt.Sprintf("> %s (%s)", title, fields[0].signed()); len(line) <= inline {
			p.line(1, bold, "%s", line)
			return
		}
	}
	p.line(1, bold, "> %s", title)
	for _, f := range fields {
		if !f.long() {
			p.line(3, "", "told %s", f.signed())
			continue
		}
		p.line(3, "", "told %s:", f.Path)
		for _, l := range lines(f.Before, f.After) {
			p.line(5, "", "%c %s", l.sign, l.text)
		}
	}
}

// again writes when the same call would be made once more.
func (p *printer) again(c Call) {
	switch {
	case c.GaveUp:
		p.line(1, "", ". not again before the object changes")
	case c.RetryAfterSeconds > 0:
		p.line(1, "", ". again after %s", span(c.RetryAfterSeconds))
	case c.Error != nil:
		p.line(1, "", ". again after a backoff")
	}
}

// clock writes what is remembered, and whom the clock has told next.
func (p *printer) clock(o Object) {
	if o.Recorded && len(o.Calls) == 0 {
		p.line(1, yellow, "~ its record of what handlers have dealt with")
	}
	for _, handler := range o.GivenUp {
		p.line(1, yellow, ". %s  gave up, until the object changes", handler)
	}
	for _, t := range o.Timers {
		idle := ""
		if t.IdleSeconds > 0 {
			idle = ", if nothing changes for " + span(t.IdleSeconds)
		}
		p.line(1, "", ". %s  timer at %s%s", t.Handler, moment(t.At), idle)
	}
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func span(seconds float64) string { return time.Duration(seconds * float64(time.Second)).String() }
