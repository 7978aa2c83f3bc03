package call

import (
	"context"
	"slices"
	"sync"
)

// The limits of an Output.
const (
	maxOutputLines = 100
	maxOutputBytes = 16 << 10
)

// Output is what a hook prints during one call, within limits, and what code it ran. Lines of a program may arrive after
// its response. It is safe for concurrent use, and nil discards everything.
type Output struct {
	mu      sync.Mutex
	lines   []string
	bytes   int
	dropped int
	code    Code
}

type outputKey struct{}

// WithOutput returns a context for a call of a hook, and what the hook prints. Only inline and exec
// hooks print what belongs to one call.
func WithOutput(ctx context.Context) (context.Context, *Output) {
	o := &Output{}
	return context.WithValue(ctx, outputKey{}, o), o
}

// OutputOf returns where a call prints; nil for nowhere.
func OutputOf(ctx context.Context) *Output {
	o, _ := ctx.Value(outputKey{}).(*Output)
	return o
}

// Add adds a line.
func (o *Output) Add(line string) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines) >= maxOutputLines || o.bytes+len(line) > maxOutputBytes {
		o.dropped++
		return
	}
	o.lines = append(o.lines, line)
	o.bytes += len(line)
}

// Ran sets the code that the call runs.
func (o *Output) Ran(code Code) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.code = code
}

// Code returns the code that the call ran.
func (o *Output) Code() Code {
	if o == nil {
		return Code{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.code
}

// Lines returns the lines, and the number of those that exceed the limits.
func (o *Output) Lines() (lines []string, dropped int) {
	if o == nil {
		return nil, 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lines), o.dropped
}

// Size returns the memory used.
func (o *Output) Size() int {
	const header = 16
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes + header*cap(o.lines)
}
