package cli

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
)

// newReporter returns a progress reporter for a stream: animated on a terminal, with colors
// unless NO_COLOR is set (https://no-color.org).
func newReporter(out io.Writer) *progress.Reporter {
	o := progress.Options{Out: out}
	if isTerminal(out) && os.Getenv("TERM") != "dumb" {
		o.Live = true
		o.Color = wantsColor(out)
		o.Width = terminalWidth(out)
	}
	return progress.New(o)
}

// terminalWidth returns the width of the terminal behind a stream; 0 if it is unknown.
func terminalWidth(out io.Writer) int {
	if !isTerminal(out) {
		return 0
	}
	width, _, _ := term.GetSize(descriptor(out))
	return width
}

// wantsColor reports whether to print colors to a stream.
func wantsColor(out io.Writer) bool {
	return isTerminal(out) && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	fd := descriptor(stream)
	return fd >= 0 && term.IsTerminal(fd)
}

func descriptor(stream any) int {
	if file, ok := stream.(*os.File); ok {
		return int(file.Fd())
	}
	return -1
}
