package cli

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// How long there is at least between two looks of --watch, and before what failed is
// tried again; and how often it is looked which processes there are: in a folder, and by
// the Leases of a cluster, of which there are many: less often than a process fails that
// has ended.
const (
	minWatchInterval = 500 * time.Millisecond
	retryDelay       = 2 * time.Second
	folderInterval   = time.Second
	clusterInterval  = 30 * time.Second
	failureInterval  = 10 * time.Second
)

// follow shows what there is, and again when something has changed, if it is to. Then it
// ends at a signal, and only then: processes come and go, and so do API servers.
func (r *session) follow(ctx context.Context, show func(context.Context) error) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	err := show(ctx)
	if err != nil || !r.watch {
		return err
	}
	w := &processWatch{session: r, revisions: map[model.Source]uint64{}}
	for w.wait(ctx, err != nil) && pause(ctx, minWatchInterval) {
		if err = show(ctx); ctx.Err() != nil || isWriteError(err) {
			break
		}
		w.warn(&w.showWarnings, err)
	}
	if ctx.Err() != nil {
		return nil // What failed did because the user has ended it.
	}
	return err
}

// isWriteError says that nobody reads on: output cannot be written.
func isWriteError(err error) bool {
	failed, is := errors.AsType[*fs.PathError](err)
	return is && failed.Op == "write"
}

// pause waits, and says whether there is still a reason to go on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// processWatch waits for what is new.
type processWatch struct {
	*session
	// revisions are how far each process was when it said something last.
	revisions map[model.Source]uint64
	// discoveryWarnings and failed are warnings about finding processes, and about showing them.
	discoveryWarnings, showWarnings warnings
}

// processChange is that a process has something new, or that it does not answer.
type processChange struct {
	source   model.Source
	revision uint64
	err      error
}

// wait waits until a process has something new, or others are there than before; where
// something failed, no longer than until that can be tried again. It says whether to
// look again.
func (w *processWatch) wait(ctx context.Context, failed bool) bool {
	if failed && pause(ctx, retryDelay) {
		if w.mayRediscover() {
			w.rediscover(ctx)
		}
		return ctx.Err() == nil
	}
	awaiting, stop := context.WithCancel(ctx)
	defer stop()
	all := make(chan processChange)
	for _, s := range w.sources {
		go awaitChange(awaiting, s, w.revisions[s], all)
	}
	every := clusterInterval
	if w.localProcesses != nil {
		every = folderInterval
	}
	look := time.NewTicker(every)
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
			delete(w.revisions, first.source) // What it says next is news.
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

// mayRediscover says whether a failure is reason to look which processes there are: it costs
// nothing in a folder, and in a cluster a list of Leases.
func (w *processWatch) mayRediscover() bool {
	return w.localProcesses != nil || time.Since(w.discovered) >= failureInterval
}

// awaitChange tells of the first news of a process, and before that of each failure.
func awaitChange(ctx context.Context, s model.Source, since uint64, all chan<- processChange) {
	for {
		revision, err := s.Await(ctx, since)
		select {
		case <-ctx.Done():
			return
		case all <- processChange{s, revision, err}:
		}
		if err == nil || !pause(ctx, retryDelay) {
			return
		}
		since = 0
	}
}

// rediscover looks which processes there are, and says whether these are others than
// before.
func (w *processWatch) rediscover(ctx context.Context) bool {
	before := slices.Clone(w.sources)
	err := w.discover(ctx)
	if ctx.Err() == nil {
		w.warn(&w.discoveryWarnings, err)
	}
	for s := range w.revisions {
		if !slices.Contains(w.sources, s) {
			delete(w.revisions, s)
		}
	}
	return !slices.Equal(before, w.sources)
}

// warn warns of a problem, unless it was the same before.
func (w *processWatch) warn(before *warnings, err error) {
	if err == nil {
		before.print(w.stderr)
		return
	}
	before.print(w.stderr, err)
}
