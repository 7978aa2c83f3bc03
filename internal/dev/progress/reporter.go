// Package progress writes what a user of `setpoint dev` sees: phases with the
// time they took, single lines, and the output of several processes in one
// stream, none tearing another apart.
//
// On a terminal the phases that are under way stay at the bottom as moving
// lines; elsewhere every line is written once and never touched again.
// What happens in a phase is not known here. The dev loop writes through it.
package progress

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options configure a Reporter. The zero value of all but Out works.
type Options struct {
	// Out is where everything goes.
	Out io.Writer
	// Live says that Out is a terminal whose last lines may be rewritten.
	Live bool
	// Color says that Out understands colours.
	Color bool
	// Width is the number of columns; 80 when zero.
	Width int
}

// Reporter is the single writer to the terminal. Safe for concurrent use.
type Reporter struct {
	options Options

	mu      sync.Mutex
	phases  []*Phase // under way, oldest first
	drawn   int      // live lines on the screen
	frame   int
	stop    chan struct{} // stops the animation; nil when it stands still
	writers int           // for the next colour
}

// New makes a Reporter.
func New(o Options) *Reporter {
	if o.Width <= 0 {
		o.Width = 80
	}
	return &Reporter{options: o}
}

// Phase is one thing that takes time.
type Phase struct {
	reporter *Reporter
	name     string
	began    time.Time
}

// Phase begins a phase; Done or Fail ends it.
func (r *Reporter) Phase(name string) *Phase {
	p := &Phase{reporter: r, name: name, began: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phases = append(r.phases, p)
	r.animate()
	r.redraw()
	return p
}

// Done ends the phase; detail may say what came of it.
func (p *Phase) Done(detail string) { p.end(p.reporter.good("✓"), detail) }

// Fail ends the phase; the error itself is the caller's to show, once.
func (p *Phase) Fail() { p.end(p.reporter.bad("✗"), "") }

func (p *Phase) end(mark, detail string) {
	r := p.reporter
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.phases, p)
	if i < 0 {
		return
	}
	r.phases = slices.Delete(r.phases, i, i+1)
	r.print(strings.TrimRight(p.line(mark)+"  "+r.dim(detail), " "))
}

// line aligns the times of phases under each other.
func (p *Phase) line(mark string) string {
	return fmt.Sprintf("%s %-40s %6s", mark, p.name, FormatDuration(time.Since(p.began)))
}

// Line writes one line, or several.
func (r *Reporter) Line(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.print(fmt.Sprintf(format, args...))
}

// Event says that something happened and how long it took.
func (r *Reporter) Event(took time.Duration, format string, args ...any) {
	r.Line("%s %s %s", r.good("✓"), fmt.Sprintf(format, args...), r.dim("("+FormatDuration(took)+")"))
}

// Still says that something goes on, where no moving line shows it.
func (r *Reporter) Still(format string, args ...any) {
	if !r.options.Live {
		r.Line("… "+format, args...)
	}
}

// Warning shows what is no error and may want attention.
func (r *Reporter) Warning(format string, args ...any) {
	r.Line("%s %s", r.paint("33", "!"), fmt.Sprintf(format, args...))
}

// Problem shows an error that does not end the program. Further lines of it
// are indented below the first.
func (r *Reporter) Problem(err error) {
	r.Line("%s %s", r.bad("✗"), strings.ReplaceAll(err.Error(), "\n", "\n  "))
}

// Close takes moving lines from the screen. The Reporter can still be used.
func (r *Reporter) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phases = nil
	r.redraw()
}

// print writes above the moving lines.
func (r *Reporter) print(text string) {
	r.erase()
	_, _ = io.WriteString(r.options.Out, strings.TrimRight(text, "\n")+"\n")
	r.redraw()
}

// FormatDuration writes a duration as briefly as a reader wants it.
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
