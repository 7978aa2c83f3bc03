package cli

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
)

// newReporter suits the way progress is written to where it goes: moving lines
// need a terminal, colours one that wants them (https://no-color.org).
func newReporter(out io.Writer) *progress.Reporter {
	o := progress.Options{Out: out}
	if isTerminal(out) && os.Getenv("TERM") != "dumb" {
		o.Live = true
		o.Color = wantsColor(out)
		o.Width = terminalWidth(out)
	}
	return progress.New(o)
}

// terminalWidth is how wide the terminal is to which a stream is connected; 0 for unknown, or
// for what is no terminal.
func terminalWidth(out io.Writer) int {
	if !isTerminal(out) {
		return 0
	}
	width, _, _ := term.GetSize(descriptor(out))
	return width
}

// wantsColor says whether who reads a stream sees colours, and likes them.
func wantsColor(out io.Writer) bool {
	return isTerminal(out) && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
}

// isTerminal says whether a stream is connected to a terminal.
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
