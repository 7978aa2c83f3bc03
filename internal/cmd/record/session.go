package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// recordSession records processes to one file.
type recordSession struct {
	*processes.Session
	filter recording.Filter
	path   string

	mu   sync.Mutex
	file *recording.File
	// active are the processes that are recorded now, processes all that were.
	active, processes map[inspect.Source]bool
	// unreadable says when to try again those whose stream cannot be read.
	unreadable map[inspect.Source]time.Time
	// hidden and unchecked count calls that the user may not read, and whose permissions are not known.
	hidden, unchecked int
	totals            recording.Totals
	full              bool
	// reported are the warnings about discovery, failing the names of the processes with a warning since they were
	// recorded.
	reported processes.Warnings
	failing  map[string]bool
}

func newRecordSession(r *processes.Session, filter recording.Filter, path string) *recordSession {
	return &recordSession{
		Session: r, filter: filter, path: path, active: map[inspect.Source]bool{}, processes: map[inspect.Source]bool{},
		unreadable: map[inspect.Source]time.Time{}, failing: map[string]bool{},
	}
}

// run records until the context ends or the file is full. Processes that appear meanwhile are recorded, too.
func (s *recordSession) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// What was called before the end is still on its way, and is part of the recording if it can be checked soon.
	streaming, stop := extend(ctx, 5*recording.StreamDelay)
	defer stop()
	checking, stopChecking := extend(ctx, lastChecks)
	defer stopChecking()
	var streams sync.WaitGroup
	for next := time.Duration(0); command.Pause(ctx, next); next = recordFlushInterval {
		if time.Since(s.Discovered) >= s.DiscoveryInterval() {
			s.rediscover(ctx)
		}
		for _, source := range s.idle() {
			one := &processRecording{recordSession: s, source: source, client: s.Client.Separate(), end: cancel}
			streams.Go(func() { one.record(streaming, checking) })
		}
		if err := s.flush(); err != nil {
			cancel(err)
		}
	}
	streams.Wait()
	switch err := context.Cause(ctx); {
	case errors.Is(err, recording.ErrFull):
		s.full = true
	case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("record to %s: %w", s.path, err)
	}
	return nil
}

// lastChecks is how long the permissions of the last calls may take to check.
const lastChecks = 5 * time.Second

// extend returns a context that ends some time after another one.
func extend(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(by, stop) })
	return longer, stop
}

// rediscover finds new processes. Those that are recorded stay so.
func (s *recordSession) rediscover(ctx context.Context) {
	err := s.Discover(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		s.reported.Print(s.Stderr, err)
	}
}

// recordFlushInterval is how much a process that is killed may lose.
const recordFlushInterval = time.Second

func (s *recordSession) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Flush()
}

// idle returns the processes that are not recorded, and marks them.
func (s *recordSession) idle() (all []inspect.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, source := range s.Sources {
		if !s.active[source] && !time.Now().Before(s.unreadable[source]) {
			s.active[source] = true
			all = append(all, source)
		}
	}
	return all
}

// unreadableRetry is when a process whose stream cannot be read, such as one of another version, is tried again.
const unreadableRetry = time.Minute

// processRecording records one process until it ends.
type processRecording struct {
	*recordSession
	source inspect.Source
	client *client.Client
	// end ends the whole recording: the file cannot be written.
	end context.CancelCauseFunc
	// ended means that it was called.
	ended bool
}

// record records until the process or streaming ends. Permissions are checked until checking ends.
func (p *processRecording) record(streaming, checking context.Context) {
	in, out := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := p.copyCalls(checking, &firstRead{Reader: in, then: p.begun})
		_ = in.CloseWithError(err) // The process would wait for a reader.
		read <- err
	}()
	err := p.source.Record(streaming, p.filter, out)
	_ = out.CloseWithError(io.EOF)
	unreadable := <-read
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.active, p.source)
	if streaming.Err() == nil && !p.ended {
		p.report(err, unreadable)
	}
}

// begun notes that nothing which runs is missed any more.
func (p *processRecording) begun() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.processes[p.source] = true
	if p.unreadable[p.source].IsZero() {
		delete(p.failing, p.source.Name())
		fmt.Fprintf(p.Stderr, "Recording the process %s to %s; Ctrl-C ends it.\n", output.Clean(p.source.Name()), output.Clean(p.path))
	}
}

// report prints why a process is not recorded any more, once until it is recorded again: what follows is why it
// cannot be reached.
func (p *processRecording) report(err, unreadable error) {
	name := p.source.Name()
	switch {
	case unreadable != nil:
		err = unreadable
		p.unreadable[p.source] = time.Now().Add(unreadableRetry)
	case err == nil:
		err = errors.New("the process has ended")
	}
	if !p.failing[name] {
		p.failing[name] = true
		fmt.Fprintln(p.Stderr, "warning:", output.Clean(fmt.Sprintf("%s is not recorded any more: %v", name, err)))
	}
}

// copyCalls writes what the process sends. The error is one of the stream; one of the file ends the recording.
func (p *processRecording) copyCalls(ctx context.Context, in io.Reader) error {
	reader := recording.NewReader(in)
	var known recording.Totals
	for {
		call, err := reader.Next()
		p.mu.Lock()
		p.totals = p.totals.Plus(reader.Totals.Minus(known))
		p.mu.Unlock()
		known = reader.Totals
		if errors.Is(err, io.EOF) || errors.Is(err, recording.ErrEmpty) {
			return nil
		}
		if err != nil {
			return err
		}
		call.Process = p.source.Name()
		if !p.isReadable(ctx, call) {
			continue
		}
		if err := p.write(call); err != nil {
			p.ended = true
			p.end(err)
			return nil
		}
	}
}

func (p *processRecording) write(call *recording.Call) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, err := p.file.Writer()
	if err != nil {
		return err
	}
	return w.Copy(call)
}

// isReadable reports whether the user may read all objects in a call, and counts it otherwise. A call during an outage of
// the API server is left out; the next one is checked again.
func (p *processRecording) isReadable(ctx context.Context, call *recording.Call) bool {
	made, err := callOf(call)
	run := inspect.Run{Object: call.Object, Steps: []inspect.Step{{Call: made}}}
	readable := err == nil && inspect.CanReadAll(run, p.client.CanRead(ctx))
	err = p.client.TakeErr()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if readable && err == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.hidden++
		return false
	}
	p.unchecked++
	if p.unchecked == 1 {
		fmt.Fprintln(p.Stderr, "warning:", output.Clean(fmt.Sprintf("calls are left out: %v", err)))
	}
	return false
}

// firstRead calls a function after the first read.
type firstRead struct {
	io.Reader

	then func()
}

func (r *firstRead) Read(into []byte) (int, error) {
	n, err := r.Reader.Read(into)
	if n > 0 && r.then != nil {
		r.then()
		r.then = nil
	}
	return n, err
}
