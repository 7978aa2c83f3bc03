package progress

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Terminal control codes.
const (
	clearBelow = "\x1b[J"
	lineUp     = "\x1b[%dA\r"
	reset      = "\x1b[0m"
)

const (
	frames    = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
	frameTime = 100 * time.Millisecond
)

// animate redraws the live lines while there are any.
func (r *Reporter) animate() {
	if !r.options.Live || r.stop != nil {
		return
	}
	stop := make(chan struct{})
	r.stop = stop
	go func() {
		ticker := time.NewTicker(frameTime)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				r.tick()
			}
		}
	}()
}

func (r *Reporter) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frame++
	r.redraw()
}

// redraw replaces the live lines.
func (r *Reporter) redraw() {
	if !r.options.Live || r.paused {
		return
	}
	r.erase()
	if len(r.phases) == 0 {
		r.stopAnimation()
		return
	}
	spinner := []rune(frames)
	mark := string(spinner[r.frame%len(spinner)])
	var text strings.Builder
	for _, p := range r.phases {
		line := []rune(strings.TrimRight(p.line(mark)+"  "+p.detail, " "))
		text.WriteString(string(line[:min(len(line), max(r.options.Width-1, 1))]) + "\n")
	}
	r.drawn = len(r.phases)
	_, _ = io.WriteString(r.options.Out, text.String())
}

// stopAnimation stops the animation until the next phase.
func (r *Reporter) stopAnimation() {
	if r.stop != nil {
		close(r.stop)
		r.stop = nil
	}
}

func (r *Reporter) erase() {
	if r.drawn > 0 {
		fmt.Fprintf(r.options.Out, lineUp+clearBelow, r.drawn)
		r.drawn = 0
	}
}

func (r *Reporter) good(text string) string { return r.paint("32", text) }
func (r *Reporter) bad(text string) string  { return r.paint("31", text) }
func (r *Reporter) dim(text string) string  { return r.paint("2", text) }

func (r *Reporter) paint(code, text string) string {
	if !r.options.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + reset
}
