package processes

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// minWatchInterval is the shortest time between two outputs of --watch, retryDelay the wait
// after a failure. folderInterval and clusterInterval are the intervals of discovery:
// reading a folder is cheap, a cluster may have many Leases.
const (
	minWatchInterval = 500 * time.Millisecond
	retryDelay       = 2 * time.Second
	folderInterval   = time.Second
	clusterInterval  = 10 * time.Second
)

// Follow calls show once, and with --watch again after each change, until a signal.
// Processes and API servers may come and go meanwhile.
func (r *Session) Follow(ctx context.Context, show func(context.Context) error) error {
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	if err := show(ctx); err != nil || !r.Watch {
		return err
	}
	return r.watch(ctx, show)
}

// watch calls show after each change until ctx ends.
func (r *Session) watch(ctx context.Context, show func(context.Context) error) (err error) {
	revisions := map[inspect.Source]uint64{}
	var discovery, shown Warnings
	for delay := minWatchInterval; command.Pause(ctx, delay); {
		news := err != nil || r.awaitNews(ctx, revisions)
		if before := r.Sources; ctx.Err() == nil && time.Since(r.Discovered) >= r.DiscoveryInterval() {
			discovery.Print(r.Stderr, r.Discover(ctx))
			news = news || !slices.Equal(before, r.Sources)
		}
		if !news || ctx.Err() != nil {
			continue
		}
		if err = show(ctx); ctx.Err() != nil || isWriteError(err) {
			break
		}
		shown.Print(r.Stderr, err)
		if delay = minWatchInterval; err != nil {
			delay = retryDelay
		}
	}
	if ctx.Err() == nil { // Else the signal caused the error.
		return err
	}
	return nil
}

// isWriteError reports whether the output cannot be written.
func isWriteError(err error) bool {
	failed, is := errors.AsType[*fs.PathError](err)
	return is && failed.Op == "write"
}

// awaitNews waits until a process has another revision than the known one, or it is time for a discovery.
func (r *Session) awaitNews(ctx context.Context, revisions map[inspect.Source]uint64) (news bool) {
	ctx, cancel := context.WithTimeout(ctx, r.DiscoveryInterval()-time.Since(r.Discovered))
	defer cancel()
	known := maps.Clone(revisions)
	var mu sync.Mutex
	var waiting sync.WaitGroup
	for _, s := range r.Sources {
		waiting.Go(func() {
			revision, err := s.Await(ctx, known[s])
			if err != nil {
				command.Pause(ctx, retryDelay)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				revisions[s], news = revision, true
				cancel()
			case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
				delete(revisions, s) // Any response is a change.
			}
		})
	}
	waiting.Wait()
	return news
}

// DiscoveryInterval is the time between two discoveries.
func (r *Session) DiscoveryInterval() time.Duration {
	if r.localProcesses != nil {
		return folderInterval
	}
	return clusterInterval
}
