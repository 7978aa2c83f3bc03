package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// recordSession records processes to one file.
type recordSession struct {
	*session
	filter recording.Filter
	path   string

	mu   sync.Mutex
	file *recording.File
	// active are the processes that are recorded now, processes all that were.
	active, processes map[model.Source]bool
	calls, hidden     int
	totals            recording.Totals
	full              bool
	reported          warnings
}

// run records until the context ends or the file is full. Processes that appear meanwhile are recorded, too.
func (s *recordSession) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	streaming, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	// What was called before the end is still on its way.
	context.AfterFunc(ctx, func() { time.AfterFunc(5*recording.StreamDelay, stop) })
	var streams sync.WaitGroup
	for next := time.Duration(0); pause(ctx, next); next = recordFlushInterval {
		if time.Since(s.discovered) >= s.interval() {
			s.rediscover(ctx)
		}
		for _, source := range s.idle() {
			streams.Go(func() { s.recordSource(streaming, source, cancel) })
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

// interval is that of discovery.
func (s *recordSession) interval() time.Duration {
	if s.localProcesses != nil {
		return folderInterval
	}
	return clusterInterval
}

// rediscover finds new processes. Those that are recorded stay so.
func (s *recordSession) rediscover(ctx context.Context) {
	err := s.discover(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		s.reported.print(s.stderr, err)
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
func (s *recordSession) idle() (all []model.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, source := range s.sources {
		if !s.active[source] {
			s.active[source], s.processes[source] = true, true
			all = append(all, source)
		}
	}
	return all
}

// recordSource records one process until it ends. An error of the file ends all.
func (s *recordSession) recordSource(ctx context.Context, source model.Source, end context.CancelCauseFunc) {
	calls, can := source.(model.CallSource)
	if !can {
		return
	}
	in, out := io.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		first := &firstRead{Reader: in, then: func() {
			fmt.Fprintf(s.stderr, "Recording the process %s to %s; Ctrl-C ends it.\n", clean(source.Name()), clean(s.path))
		}}
		err := s.copyCalls(ctx, first, source.Name())
		if err != nil {
			end(err)
		}
		_ = in.CloseWithError(err) // The process would wait for a reader.
	}()
	err := calls.Record(ctx, s.filter, out)
	_ = out.CloseWithError(io.EOF)
	<-read
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, source)
	if ctx.Err() == nil {
		if err == nil {
			err = errors.New("the process has ended")
		}
		s.reported.print(s.stderr, fmt.Errorf("%s is not recorded any more: %w", source.Name(), err))
	}
}

// copyCalls writes what a process sends. The error is one of the file.
func (s *recordSession) copyCalls(ctx context.Context, in io.Reader, process string) error {
	reader := recording.NewReader(in)
	var known recording.Totals
	for {
		call, err := reader.Next()
		s.mu.Lock()
		s.totals = s.totals.Plus(reader.Totals.Minus(known))
		known = reader.Totals
		s.mu.Unlock()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if ctx.Err() == nil {
				s.mu.Lock()
				s.reported.print(s.stderr, fmt.Errorf("%s: %w", process, err))
				s.mu.Unlock()
			}
			return nil
		}
		call.Process = process
		// Calls that are on their way when the recording ends are part of it.
		if !s.readable(context.WithoutCancel(ctx), call) {
			s.mu.Lock()
			s.hidden++
			s.mu.Unlock()
			continue
		}
		if err := s.write(call); err != nil {
			return err
		}
	}
}

func (s *recordSession) write(call *recording.Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, err := s.file.Writer()
	if err == nil {
		err = w.Copy(call)
	}
	if err == nil {
		s.calls++
	}
	return err
}

// readable reports whether the user may read all objects in a call.
func (s *recordSession) readable(ctx context.Context, call *recording.Call) bool {
	fields, err := call.Request()
	if err != nil {
		return false
	}
	request, _ := json.Marshal(fields) //nolint:errchkjson // They are JSON.
	response, err := call.Response()
	if err != nil {
		return false
	}
	run := model.Run{Object: call.Object, Steps: []model.Step{{Call: &model.Call{Request: request, Response: response}}}}
	return model.CanReadAll(run, s.permissions.canRead(ctx))
}

// firstRead calls a function after the first read: then nothing that runs is missed any more.
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
