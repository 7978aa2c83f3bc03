// Package call calls hooks that are not part of this process.
//
// Hook encodes requests and decodes responses, within limits, and reports each call. A
// Transport carries the JSON: package webhook over HTTP, packages inline and program to
// child processes. Package hook defines the wire form, compile opens transports, and the
// loops handle errors.
package call

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"
)

// Transport carries the requests of one hook, function or program. All its methods are
// safe for concurrent use.
type Transport interface {
	// Exchange sends a request and returns the response. It returns when ctx is done, with
	// the error of ctx, and within Timeout, with an error of its own that does not wrap
	// context.DeadlineExceeded. The body of a response is within the limits of the request;
	// Limits has the errors for larger ones, and MaxErrorBytes applies to what errors quote.
	//
	// Exchange sets Code and BytesIn of the result, also when it fails. The types of errors
	// are those of package hook: an UnreachableError if the hook as a whole fails,
	// independently of the request, a RetryAfterError if it wants a later call.
	Exchange(ctx context.Context, req *Request, result *Result) (Response, error)
	// Wrap says in an error how the hook was called, such as "POST http://hooks/sync: ". It
	// gets each error that a call returns, also one of a response that cannot be decoded.
	// The error may have a method Fault() *failure.Fault, which user interfaces show.
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
	// Body is one JSON object on one line. Each call has its own, which a transport may
	// still read after the call returned.
	Body []byte
	// Object is the object that the call is about, as JSON, for logs and caches; nil if
	// there is none. It is read-only.
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
	// Code is the HTTP status code. Other transports report 200 for a response and 500 for
	// an error of the hook. It is 0 if there was neither.
	Code int
	// Duration is the time from sending the request to decoding the response.
	Duration time.Duration
	// BytesOut and BytesIn are the sizes of the bodies. BytesIn counts the bytes read.
	BytesOut, BytesIn int
	// Err is the error returned to the caller.
	Err error
}

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
