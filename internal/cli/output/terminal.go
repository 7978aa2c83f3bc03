package output

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
)

// NewReporter returns a progress reporter for a stream: animated on a terminal, with colors
// unless NO_COLOR is set (https://no-color.org).
func NewReporter(out io.Writer) *progress.Reporter {
	o := progress.Options{Out: out}
	if IsTerminal(out) && os.Getenv("TERM") != "dumb" {
		o.Live = true
		o.Color = WantsColor(out)
		o.Width = TerminalWidth(out)
	}
	return progress.New(o)
}

// TerminalWidth returns the width of the terminal behind a stream; 0 if it is unknown.
func TerminalWidth(out io.Writer) int {
	if !IsTerminal(out) {
		return 0
	}
	width, _, _ := term.GetSize(descriptor(out))
	return width
}

// WantsColor reports whether to print colors to a stream.
func WantsColor(out io.Writer) bool {
	return IsTerminal(out) && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	fd := descriptor(stream)
	return fd >= 0 && term.IsTerminal(fd)
}

func descriptor(stream any) int {
	if file, ok := stream.(*os.File); ok {
		return int(file.Fd())
	}
	return -1
}
