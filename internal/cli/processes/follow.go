package processes

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// minWatchInterval is the shortest time between two outputs of --watch, retryDelay the wait
// after a failure. folderInterval and clusterInterval are the intervals of discovery:
// reading a folder is cheap, a cluster may have many Leases. failureInterval limits
// discovery after failures.
const (
	minWatchInterval = 500 * time.Millisecond
	retryDelay       = 2 * time.Second
	folderInterval   = time.Second
	clusterInterval  = 30 * time.Second
	failureInterval  = 10 * time.Second
)

// Follow calls show once, and with --watch again after each change, until a signal.
// Processes and API servers may come and go meanwhile.
func (r *Session) Follow(ctx context.Context, show func(context.Context) error) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	err := show(ctx)
	if err != nil || !r.Watch {
		return err
	}
	w := &processWatch{Session: r, revisions: map[inspect.Source]uint64{}}
	for w.wait(ctx, err != nil) && command.Pause(ctx, minWatchInterval) {
		if err = show(ctx); ctx.Err() != nil || isWriteError(err) {
			break
		}
		w.showWarnings.Print(w.Stderr, err)
	}
	if ctx.Err() != nil {
		return nil // The signal caused the error.
	}
	return err
}

// isWriteError reports whether the output cannot be written.
func isWriteError(err error) bool {
	failed, is := errors.AsType[*fs.PathError](err)
	return is && failed.Op == "write"
}

// processWatch waits for changes in the processes.
type processWatch struct {
	*Session
	// revisions are the latest revisions seen, by process.
	revisions map[inspect.Source]uint64
	// discoveryWarnings and showWarnings are the warnings printed last.
	discoveryWarnings, showWarnings Warnings
}

// processChange is a new revision of a process, or the error of reading it.
type processChange struct {
	source   inspect.Source
	revision uint64
	err      error
}

// wait waits until a process has a new revision or the set of processes changes; after a
// failure, at most for retryDelay. It reports whether to show the state again.
func (w *processWatch) wait(ctx context.Context, failed bool) bool {
	if failed && command.Pause(ctx, retryDelay) {
		if w.mayRediscover() {
			w.rediscover(ctx)
		}
		return ctx.Err() == nil
	}
	awaiting, stop := context.WithCancel(ctx)
	defer stop()
	all := make(chan processChange)
	for _, s := range w.Sources {
		go awaitChange(awaiting, s, w.revisions[s], all)
	}
	look := time.NewTicker(w.DiscoveryInterval())
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case first := <-all:
			if first.err == nil {
				w.revisions[first.source] = first.revision
				return true
			}
			delete(w.revisions, first.source) // Any response is a change.
			if !w.mayRediscover() {
				continue
			}
		case <-look.C:
		}
		if w.rediscover(ctx) {
			return true
		}
	}
}

// DiscoveryInterval is the time between two discoveries.
func (r *Session) DiscoveryInterval() time.Duration {
	if r.localProcesses != nil {
		return folderInterval
	}
	return clusterInterval
}

// mayRediscover reports whether a failure justifies a discovery now: it is free in a
// folder, and lists the Leases of a cluster.
func (w *processWatch) mayRediscover() bool {
	return w.localProcesses != nil || time.Since(w.Discovered) >= failureInterval
}

// awaitChange sends the next revision of a process, and each failure before it.
func awaitChange(ctx context.Context, s inspect.Source, since uint64, all chan<- processChange) {
	for {
		revision, err := s.Await(ctx, since)
		select {
		case <-ctx.Done():
			return
		case all <- processChange{s, revision, err}:
		}
		if err == nil || !command.Pause(ctx, retryDelay) {
			return
		}
		since = 0
	}
}

// rediscover finds the processes again and reports whether they changed.
func (w *processWatch) rediscover(ctx context.Context) bool {
	before := slices.Clone(w.Sources)
	err := w.Discover(ctx)
	if ctx.Err() == nil {
		w.discoveryWarnings.Print(w.Stderr, err)
	}
	for s := range w.revisions {
		if !slices.Contains(w.Sources, s) {
			delete(w.revisions, s)
		}
	}
	return !slices.Equal(before, w.Sources)
}
