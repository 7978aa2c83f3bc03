package handler

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// fakeProcess is the process of handlers: it runs daemons, writes notifications and has an
// index.
type fakeProcess struct {
	mu sync.Mutex
	// calls are all calls, such as "eur Start".
	calls []string
	// daemons are the running daemons, by UID.
	daemons map[string]bool
	// respond, if set, may give the response to a call.
	respond func(what hook.DaemonCall, n *hook.HandlerRequest) (*hook.HandlerResponse, error)
	out     *io.PipeWriter
	// down is the error of all calls; nil if the process runs.
	down error

	// index has the objects by name, and requests are the calls about it, such as
	// "first 2 -0 complete".
	index    map[string]*object.Object
	requests []string
}

func newFakeProcess() *fakeProcess {
	return &fakeProcess{daemons: map[string]bool{}, index: map[string]*object.Object{}}
}

// daemonProgram returns a program with a daemon in the process.
func (p *fakeProcess) daemonProgram(h trigger.Handler) Program {
	h.Daemon, h.Do = CallDaemon, hook.HandlerFunc(p.handle)
	made := program(h)
	made.Backend = p.backend()
	return made
}

func (p *fakeProcess) backend() Backend { return Backend{ID: "process", Notifications: p.open} }

// unknownDaemon is the status 404.
type unknownDaemon struct{}

func (unknownDaemon) Error() string   { return "no such daemon" }
func (unknownDaemon) StatusCode() int { return http.StatusNotFound }

// rejected is another status.
type rejected int

func (r rejected) Error() string   { return fmt.Sprint("status ", int(r)) }
func (r rejected) StatusCode() int { return int(r) }

func (p *fakeProcess) handle(_ context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, n.Name+" "+string(n.Reason)+string(n.Daemon))
	if p.down != nil {
		return nil, p.down
	}
	o, err := object.Parse(n.Object)
	if err != nil {
		return nil, err
	}
	running := p.daemons[o.UID()]
	if p.respond != nil {
		if response, err := p.respond(n.Daemon, n); response != nil || err != nil {
			if err != nil || response.Finished || response.Err != nil {
				delete(p.daemons, o.UID())
			}
			return response, err
		}
	}
	switch n.Daemon {
	case hook.DaemonStart:
		p.daemons[o.UID()] = true
	case hook.DaemonStop:
		delete(p.daemons, o.UID())
		return &hook.HandlerResponse{Finished: true}, nil
	default:
		if !running {
			return nil, unknownDaemon{}
		}
	}
	return &hook.HandlerResponse{}, nil
}

// open opens the stream of notifications.
func (p *fakeProcess) open(ctx context.Context) (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return nil, p.down
	}
	in, out := io.Pipe()
	p.out = out
	context.AfterFunc(ctx, func() { _ = in.CloseWithError(ctx.Err()) })
	go showLife(ctx, out)
	return in, nil
}

// showLife writes empty lines until the stream ends.
func showLife(ctx context.Context, out io.Writer) {
	for {
		select {
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
			return
		}
		if _, err := io.WriteString(out, "\n"); err != nil {
			return
		}
	}
}

// stop ends the process with its daemons and its index; start starts it again.
func (p *fakeProcess) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = &hook.UnreachableError{Err: fmt.Errorf("connection refused")}
	clear(p.daemons)
	clear(p.index)
	if p.out != nil {
		_ = p.out.Close()
	}
}

func (p *fakeProcess) start() { p.set(func() { p.down = nil }) }

func (p *fakeProcess) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// notify names objects.
func (p *fakeProcess) notify(names ...string) {
	p.mu.Lock()
	out := p.out
	p.mu.Unlock()
	for _, name := range names {
		_, _ = fmt.Fprintf(out, `{"apiVersion":"example.org/v1","kind":"Rate","namespace":"town","name":%q}`+"\n", name)
	}
}

// takeCalls returns the calls since the last time.
func (p *fakeProcess) takeCalls() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := strings.Join(p.calls, ", ")
	p.calls = nil
	return strings.ReplaceAll(calls, string(hook.ReasonDaemon), "")
}

func (p *fakeProcess) running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.daemons)
}

// feed receives objects for the index.
func (p *fakeProcess) feed(_ context.Context, q *hook.IndexRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return p.down
	}
	what := fmt.Sprintf("%d -%d", len(q.Objects), len(q.Deleted))
	if q.First {
		what = "first " + what
		clear(p.index)
	}
	if q.Complete {
		what += " complete"
	}
	p.requests = append(p.requests, what)
	for _, text := range q.Objects {
		o, err := object.Parse(text)
		if err != nil {
			return err
		}
		p.index[o.Name()] = o
	}
	for _, d := range q.Deleted {
		if o := p.index[d.Name]; o != nil && o.UID() == d.UID {
			delete(p.index, d.Name)
		}
	}
	return nil
}

// takeRequests returns the calls about the index since the last time.
func (p *fakeProcess) takeRequests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests := slices.Clone(p.requests)
	p.requests = nil
	return requests
}
