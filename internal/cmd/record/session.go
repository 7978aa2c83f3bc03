package record

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
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
