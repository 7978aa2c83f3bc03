package dryrun

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Style is the style of the text. The zero value is plain.
type Style struct {
	// Color adds colors for a terminal.
	Color bool
	// Idle also lists objects without changes.
	Idle bool
}

// ANSI codes.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	reset  = "\x1b[0m"
)

// WriteText writes the report as text: a line for each object, change and changed field.
func (r Report) WriteText(w io.Writer, style Style) error {
	p := &printer{style: style}
	for _, c := range r.Controllers {
		p.writeController(c)
	}
	p.line(0, "", "%s", r.Summary)
	_, err := io.WriteString(w, p.text.String())
	return err
}

// String returns text such as "2 objects: 1 to create, 1 to update. Nothing was written."
func (s Summary) String() string {
	var parts []string
	if s.Calls > 0 {
		parts = append(parts, plural(s.Calls, "handler call"))
	}
	for _, part := range []struct {
		n    int
		what string
	}{
		{s.Create, "to create"}, {s.Update, "to update"}, {s.Recreate, "to recreate"}, {s.Delete, "to delete"}, {s.Held, "held"},
		{s.SelfUpdate, "with status or metadata to update"}, {s.Unchanged, "unchanged"}, {s.Errors, "failed"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	objects := plural(s.Objects, "object")
	if len(parts) > 0 {
		objects += ": " + strings.Join(parts, ", ")
	}
	return objects + ". Nothing was written."
}

// plural returns "1 object" or "2 objects".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// printer collects lines.
type printer struct {
	style Style
	text  strings.Builder
	// level is the indentation of nested lines.
	level int
	// compact means that the last object took one line.
	compact bool
}

// line writes a line, indented by two spaces for each level.
func (p *printer) line(level int, color, format string, args ...any) {
	text := strings.TrimRight(strings.Repeat("  ", p.level+level)+fmt.Sprintf(format, args...), " ")
	if color != "" && p.style.Color {
		text = color + text + reset
	}
	p.text.WriteString(text + "\n")
}

func (p *printer) writeController(c Controller) {
	p.line(0, bold, "%s", c.Name)
	if c.Refused != nil {
		p.line(0, red, "not accepted: %s: %s", c.Refused.Reason, indent(c.Refused.Message, 0))
		p.line(0, red, "Nothing happens until the controller is accepted.")
	}
	for _, note := range c.Notes {
		p.line(0, yellow, "note: %s", note)
	}
	p.problem(0, c.Error)
	for _, o := range c.Objects {
		p.writeObject(o)
	}
	p.line(0, "", "")
}

func (p *printer) problem(level int, problem *Problem) {
	if problem == nil {
		return
	}
	p.line(level, red, "error: %s", indent(problem.Message, p.level+level))
	if problem.Hint != "" {
		p.line(level, red, "hint: %s", problem.Hint)
	}
}

func indent(message string, level int) string {
	return strings.ReplaceAll(message, "\n", "\n"+strings.Repeat("  ", level+1))
}

func (p *printer) writeObject(o Object) {
	if o.idle() && !p.style.Idle {
		return
	}
	state := ""
	switch {
	case o.Skipped != "":
		state = ": " + o.Skipped
	case o.idle():
		state = ": no changes"
	case o.Hook != "sync" && o.Hook != "":
		state = ": by its " + o.Hook + " hook"
	}
	if !o.idle() || !p.compact {
		p.line(0, "", "")
	}
	p.compact = o.idle()
	p.line(0, bold, "%s%s", o.Ref, state)
	for _, note := range o.Notes {
		p.line(1, yellow, "note: %s", note)
	}
	for _, c := range o.Calls {
		p.writeCall(c)
	}
	for _, change := range o.Changes {
		p.writeChange(change)
	}
	if len(o.Fields) > 0 {
		p.header("~", yellow, "itself", o.Fields)
	}
	p.events(o.Events)
	p.timers(o)
	p.problem(1, o.Error)
}

func (p *printer) events(events []hook.Event) {
	for _, e := range events {
		p.line(1, "", "! %s %s: %s", e.Type, e.Reason, e.Message)
	}
}

func (p *printer) writeChange(c Change) {
	p.changeHeader(c)
	if c.Held != "" {
		p.line(3, yellow, "held: %s", c.Held)
	}
	if c.Unchecked != "" {
		p.line(3, yellow, "no dry run: %s", c.Unchecked)
	}
	p.problem(3, c.Error)
}

func (p *printer) changeHeader(c Change) {
	switch c.Action {
	case "create":
		shown, defaults := readable(c.Fields)
		p.header("+", green, fmt.Sprintf("%s  create", c.Ref), shown)
		if defaults > 0 {
			p.line(3, "", "  and %d more set by the API server", defaults)
		}
	case "delete", "evict":
		p.line(1, red, "- %s  %s%s", c.Ref, c.Action, parenthesize(c.Reason))
	case "recreate":
		p.header("-/+", red, fmt.Sprintf("%s  recreate", c.Ref), c.Fields)
	default:
		title := fmt.Sprintf("%s  %s", c.Ref, c.Action)
		if len(c.Fields) == 0 {
			title += parenthesize(c.Reason)
		}
		p.header("~", yellow, title, c.Fields)
	}
}

func parenthesize(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// maxInlineWidth is the maximum width of a change with its only field in one line.
const maxInlineWidth = 100

// header writes a change and its fields. A single field may be in the same line.
func (p *printer) header(sign, color, title string, fields []FieldChange) {
	if sign != "+" && p.oneLine(sign, color, title, fields) {
		return
	}
	p.line(1, color, "%s %s", sign, title)
	for _, f := range fields {
		sign, color := f.sign()
		if !f.multiline() {
			p.line(3, color, "%s %s", sign, f)
			continue
		}
		p.line(3, color, "%s %s:", sign, f.Path)
		p.lines(f, true)
	}
}

// oneLine writes a header with its only field in the same line, if that is short.
func (p *printer) oneLine(sign, color, title string, fields []FieldChange) bool {
	if len(fields) != 1 || fields[0].multiline() {
		return false
	}
	line := fmt.Sprintf("%s %s (%s)", sign, title, fields[0].withSign())
	if len(line) > maxInlineWidth {
		return false
	}
	p.line(1, color, "%s", line)
	return true
}

// readable returns the fields of a new object that are worth reading, and the number of defaults. It
// leaves out names and owners.
func readable(fields []FieldChange) (shown []FieldChange, defaults int) {
	for _, f := range fields {
		switch {
		case f.Path == "apiVersion", f.Path == "kind", f.Path == "metadata.name", f.Path == "metadata.namespace",
			f.Path == "metadata.labels."+plan.UIDLabel, strings.HasPrefix(f.Path, "metadata.ownerReferences"):
		case f.Default:
			defaults++
		default:
			shown = append(shown, f)
		}
	}
	return shown, defaults
}

func (f FieldChange) sign() (sign, color string) {
	switch {
	case f.From == nil:
		return "+", green
	case f.To == nil:
		return "-", red
	}
	return "~", yellow
}

// withSign returns the change in one line.
func (f FieldChange) withSign() string {
	if sign, _ := f.sign(); sign != "~" {
		return sign + " " + f.String()
	}
	return f.String()
}

// String returns "path: from -> to", or one of both.
func (f FieldChange) String() string {
	switch {
	case f.From == nil:
		return f.Path + ": " + diff.Unescaped(f.To)
	case f.To == nil:
		return f.Path + ": " + diff.Unescaped(f.From)
	}
	return f.Path + ": " + diff.Unescaped(f.From) + " -> " + diff.Unescaped(f.To)
}

// multiline reports whether a value is a string with several lines.
func (f FieldChange) multiline() bool {
	return slices.ContainsFunc([]json.RawMessage{f.From, f.To}, func(value json.RawMessage) bool {
		return strings.Contains(strings.TrimSuffix(decodeString(value), "\n"), "\n")
	})
}

func decodeString(value json.RawMessage) string {
	var text string
	_ = json.Unmarshal(value, &text) // Values of other types have no lines.
	return text
}

// lines writes the differences of a multiline value.
func (p *printer) lines(f FieldChange, colored bool) {
	compared := diff.Texts(decodeString(f.From), decodeString(f.To))
	for _, l := range compared.Lines {
		color := ""
		if colored {
			color = map[rune]string{'-': red, '+': green}[l.Sign]
		}
		if l.Sign == '@' {
			l.Sign = '…'
		}
		p.line(5, color, "%c %s", l.Sign, l.Text)
	}
	if compared.Truncated {
		p.line(5, "", "…")
	}
}

func (p *printer) writeCall(c Call) {
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
		p.writeChange(change)
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

func (p *printer) handlerCall(title string, fields []FieldChange) {
	if p.oneLine(">", bold, title, fields) {
		return
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
