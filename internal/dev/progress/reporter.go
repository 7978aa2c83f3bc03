// Package progress writes the output of `setpoint dev`, and shows how far `setpoint test` is: phases with their durations, single
// lines, and the output of several processes without mixing lines.
//
// On a terminal the running phases stay at the bottom as live lines; elsewhere each line is
// written once.
package progress

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Reporter. Only Out is required.
type Options struct {
	// Out is the output.
	Out io.Writer
	// Live reports that Out is a terminal.
	Live bool
	// Color enables colors.
	Color bool
	// Width is the number of columns; 80 if zero.
	Width int
}

// Reporter is the only writer to the terminal. It is safe for concurrent use.
type Reporter struct {
	options Options
	// HooksHidden hides what hooks print.
	HooksHidden atomic.Bool

	mu      sync.Mutex
	phases  []*Phase // running, oldest first
	drawn   int      // live lines on the screen
	frame   int
	stop    chan struct{} // stops the animation; nil if it is stopped
	writers int           // for the next color
	paused  bool
	held    []string // the last to be printed after the pause
}

// mostHeld is how much a pause keeps.
const mostHeld = 10_000

// New returns a Reporter.
func New(o Options) *Reporter {
	if o.Width <= 0 {
		o.Width = 80
	}
	return &Reporter{options: o}
}

// Phase is a step with a duration.
type Phase struct {
	reporter *Reporter
	name     string
	began    time.Time
	// detail follows the duration on the live line.
	detail string
}

// Phase starts a phase; End ends it.
func (r *Reporter) Phase(name string) *Phase {
	p := &Phase{reporter: r, name: name, began: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phases = append(r.phases, p)
	r.animate()
	r.redraw()
	return p
}

// Update shows on the live line how far the phase is.
func (p *Phase) Update(detail string) {
	p.reporter.mu.Lock()
	defer p.reporter.mu.Unlock()
	p.detail = detail
}

// End ends the phase; detail may describe the result. The caller shows the error.
func (p *Phase) End(err error, detail string) {
	r := p.reporter
	mark := r.good("✓")
	if err != nil {
		mark, detail = r.bad("✗"), ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.phases, p)
	if i < 0 {
		return
	}
	r.phases = slices.Delete(r.phases, i, i+1)
	r.print(strings.TrimRight(p.line(mark)+"  "+r.dim(detail), " "))
}

// line aligns the durations of phases.
func (p *Phase) line(mark string) string {
	return fmt.Sprintf("%s %-40s %6s", mark, p.name, FormatDuration(time.Since(p.began)))
}

// Line writes one or more lines.
func (r *Reporter) Line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print(fmt.Sprintf(format, args...))
}

// Event reports an event and its duration.
func (r *Reporter) Event(took time.Duration, format string, args ...any) {
	r.Line("%s %s %s", r.good("✓"), fmt.Sprintf(format, args...), r.dim("("+FormatDuration(took)+")"))
}

// Still reports an ongoing phase if there are no live lines.
func (r *Reporter) Still(format string, args ...any) {
	if !r.options.Live {
		r.Line("… "+format, args...)
	}
}

// Warning shows a warning.
func (r *Reporter) Warning(format string, args ...any) {
	r.Line("%s %s", r.paint("33", "!"), fmt.Sprintf(format, args...))
}

// Problem shows an error that does not end the program. Its further lines are indented.
func (r *Reporter) Problem(err error) {
	r.Line("%s %s", r.bad("✗"), strings.ReplaceAll(err.Error(), "\n", "\n  "))
}

// Close removes the live lines. The Reporter can still be used.
func (r *Reporter) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phases = nil
	r.redraw()
}

// Pause holds back what there is to print until Resume: another program has the terminal.
func (r *Reporter) Pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.erase()
	r.paused = true
}

// Resume prints what was held back.
func (r *Reporter) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = false
	for _, text := range r.held {
		r.print(text)
	}
	r.held = nil
}

// print writes above the live lines.
func (r *Reporter) print(text string) {
	if r.paused {
		r.held = append(r.held[max(0, len(r.held)-mostHeld+1):], text)
		return
	}
	r.erase()
	_, _ = io.WriteString(r.options.Out, strings.TrimRight(text, "\n")+"\n")
	r.redraw()
}

// FormatDuration formats a duration briefly.
func FormatDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}
