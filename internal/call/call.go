// Package call calls hooks that are not part of this process.
//
// Hook encodes requests and decodes responses, within limits, and reports each call. A Transport carries the JSON:
// package webhook over HTTP, packages inline and program to child processes. Package hook defines the wire form,
// compile opens transports, and the loops handle errors.
package call

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Transport carries the requests of one hook, function or program. All its methods are safe for concurrent use.
type Transport interface {
	// Exchange sends a request and returns the response. It returns when ctx is done, with the error of ctx, and within
	// Timeout, with an error of its own that does not wrap context.DeadlineExceeded. The body of a response is within
	// the limits of the request; Limits has the errors for larger ones, and MaxErrorBytes applies to what errors quote.
	//
	// Exchange sets Code and BytesIn of the result, also when it fails. The types of errors are those of package hook:
	// an UnreachableError if the hook fails for every request, a RetryAfterError if it wants a later call.
	Exchange(ctx context.Context, req *Request, result *Result) (Response, error)
	// Wrap says in an error how the hook was called, such as "POST http://hooks/sync: ". It gets each error of a call,
	// also of decoding. The error may have a method Fault() *failure.Fault, which user interfaces show.
	Wrap(hookType HookType, err error) error
	// Timeout is the time limit of a call.
	Timeout() time.Duration
	// Close releases what idle calls need. A closed transport can still be used.
	Close()
}

// Streamer is a Transport that can open a stream too.
type Streamer interface {
	Transport
	// OpenStream opens the stream of notifications of a process, which ends with ctx. The timeout applies until the
	// response begins. It sets Code of the result.
	OpenStream(ctx context.Context, req *Request, result *Result) (io.ReadCloser, error)
}

// HookType is the type of a call.
type HookType string

// The hook types.
const (
	Sync      HookType = "sync"
	Finalize  HookType = "finalize"
	Customize HookType = "customize"
	Handle    HookType = "handle"
	Admit     HookType = "admit"
	Index     HookType = "index"
	// Notifications is the stream that a process writes.
	Notifications HookType = "notifications"
)

// Request is the request of one call.
type Request struct {
	HookType HookType
	// Body is one JSON object on one line. Each call has its own, which a transport may read after the call.
	Body []byte
	// Object is the object that the call is about, as JSON, for logs and caches; nil if there is none. It is read-only.
	Object json.RawMessage
	Limits Limits
}

// Response is the response to one call.
type Response struct {
	// Body is JSON, which the caller owns.
	Body []byte
	// Valid is called once Body was decoded without an error; may be nil.
	Valid func()
}

// Result reports one call.
type Result struct {
	HookType HookType
	// Code is the HTTP status code. Other transports report 200 for a response, 500 for an error of the hook, else 0.
	Code int
	// Duration is the time from sending the request to decoding the response.
	Duration time.Duration
	// BytesIn counts the bytes read.
	BytesIn int
	// Err is the error returned to the caller.
	Err error
}

// Share says which part of all processes of hooks a controller may use. It is no part of the code.
type Share struct {
	// Owner is the ServiceAccount as which the controller acts, or the controller if it has none: an owner cannot use all.
	Owner string `json:"-"`
	// Reviews means that the hook reviews requests to the API server, which have processes of their own.
	Reviews bool `json:"-"`
}

// Script is the code of inline hooks of one controller. Hooks with the same code share one.
type Script struct {
	// Controller is the controller's name in logs, such as "compositecontroller.setpoint.dev/tenants".
	Controller string
	Share
	// Language is JavaScript or Starlark, as in a spec.
	Language string
	// Entry is the file with the functions, such as "sync.js".
	Entry string
	// Sources are all files by name, with that of Entry.
	Sources map[string]string
	// Holder is the object that has the Sources. It is no part of the code.
	Holder object.Ref `json:"-"`
	// Place returns where a file is, as errors name it; nil for its name.
	Place func(file string) string `json:"-"`
}

// Program is a compiled Script.
type Program interface {
	// Functions are the names of the functions that can be called.
	Functions() []string
	// Function returns what calls one of them with a time limit. Closing it does nothing.
	Function(name string, timeout time.Duration) Transport
	// Close ends what the program runs, also calls.
	Close()
}

// SourceError is why a Script does not compile, and where. Line and Column are 0 if they are unknown.
type SourceError struct {
	File         string
	Line, Column int
	Message      string
}

func (e *SourceError) Error() string { return e.File + e.Position() + ": " + e.Message }

// Position returns text such as ":12:5", as far as it is known.
func (e *SourceError) Position() string {
	switch {
	case e.Line == 0:
		return ""
	case e.Column == 0:
		return fmt.Sprintf(":%d", e.Line)
	}
	return fmt.Sprintf(":%d:%d", e.Line, e.Column)
}

// Command is the program of an exec hook.
type Command struct {
	// Controller is the controller's name in logs.
	Controller string
	Share
	// Args are the program and its arguments.
	Args    []string
	Timeout time.Duration
}

// Code identifies the code that a call ran.
type Code struct {
	// Digest is equal for equal code. It is empty if Setpoint cannot see the code, such as behind most webhooks.
	Digest string `json:"digest"`
	// Since is when the code was loaded, or first seen.
	Since time.Time `json:"since"`
	// Source is the text of inline code, on request and while Setpoint keeps it; else empty.
	Source string `json:"source,omitempty"`
	// Holder is the object that has the text of inline code: who may read it may read the text.
	Holder object.Ref `json:"holder,omitzero"`

	text *atomic.Pointer[string]
}

// WithSource returns the code with its text.
func (c Code) WithSource() Code {
	if c.text != nil {
		if text := c.text.Load(); text != nil {
			c.Source = *text
		}
	}
	return c
}

// Keep keeps a text for WithSource.
func (c *Code) Keep(text string) {
	c.text = &atomic.Pointer[string]{}
	c.text.Store(&text)
}

// Forget drops the text, also for the records of calls that ran the code.
func (c *Code) Forget() { c.text.Store(nil) }

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

// WithOutput returns a context for a call of a hook, and what the hook prints, which only inline and exec hooks do.
func WithOutput(ctx context.Context) (context.Context, *Output) {
	o := &Output{}
	return context.WithValue(ctx, outputKey{}, o), o
}

// OutputOf returns where a call prints; nil for nowhere.
func OutputOf(ctx context.Context) *Output {
	o, _ := ctx.Value(outputKey{}).(*Output)
	return o
}

// locked calls a function unless the output is discarded.
func (o *Output) locked(do func()) {
	if o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		do()
	}
}

// Add adds a line.
func (o *Output) Add(line string) {
	o.locked(func() {
		if len(o.lines) >= maxOutputLines || o.bytes+len(line) > maxOutputBytes {
			o.dropped++
			return
		}
		o.lines = append(o.lines, line)
		o.bytes += len(line)
	})
}

// Ran sets the code that the call runs.
func (o *Output) Ran(code Code) {
	o.locked(func() { o.code = code })
}

// Code returns the code that the call ran.
func (o *Output) Code() (code Code) {
	o.locked(func() { code = o.code })
	return code
}

// Lines returns the lines, and the number of those that exceed the limits.
func (o *Output) Lines() (lines []string, dropped int) {
	o.locked(func() { lines, dropped = slices.Clone(o.lines), o.dropped })
	return lines, dropped
}

// Size returns the memory used.
func (o *Output) Size() (size int) {
	const header = 16
	o.locked(func() { size = o.bytes + header*cap(o.lines) })
	return size
}
