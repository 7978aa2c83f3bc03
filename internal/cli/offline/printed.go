package offline

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
)

// maxProgramOutput is how much of what programs and hooks print is kept, from the end.
const maxProgramOutput = 64 << 10

// programOutput keeps what programs and hooks print, to show it if a test fails.
type programOutput struct {
	mu   sync.Mutex
	text []byte
}

// of returns a writer for the output of a program.
func (o *programOutput) of(name string) *progress.Writer {
	return progress.NewWriter(func(line []byte) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.text = fmt.Appendf(o.text, "%s | %s\n", name, line)
		if cut := len(o.text) - maxProgramOutput; cut > 0 {
			o.text = append([]byte("…\n"), o.text[cut+bytes.IndexByte(o.text[cut:], '\n')+1:]...)
		}
	})
}

// show prints what was kept.
func (o *programOutput) show(out io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = out.Write(o.text) // It belongs to a failure that is reported anyway.
}
