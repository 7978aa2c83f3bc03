package cli

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// How long there is at least between two looks of --watch, and before what failed is
// tried again; and how often it is looked which processes there are: in a folder, and by
// the Leases of a cluster, of which there are many: less often than a process fails that
// has ended.
const (
	lull        = 500 * time.Millisecond
	retryRest   = 2 * time.Second
	lookFolder  = time.Second
	lookCluster = 30 * time.Second
	lookFailed  = 10 * time.Second
)

// follow shows what there is, and again when something has changed, if it is to. Then it
// ends at a signal, and only then: processes come and go, and so do API servers.
func (r *reading) follow(ctx context.Context, show func(context.Context) error) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	err := show(ctx)
	if err != nil || !r.watch {
		return err
	}
	w := &watching{reading: r, revisions: map[inspect.Source]uint64{}}
	for w.await(ctx, err != nil) && pause(ctx, lull) {
		if err = show(ctx); ctx.Err() != nil || unwritable(err) {
			break
		}
		w.complain(&w.failed, err)
	}
	if ctx.Err() != nil {
		return nil // What failed did because the user has ended it.
	}
	return err
}

// unwritable says that nobody reads on: output cannot be written.
func unwritable(err error) bool {
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

// watching waits for what is new.
type watching struct {
	*reading
	// revisions are how far each process was when it said something last.
	revisions map[inspect.Source]uint64
	// lost and failed are warnings about finding processes, and about showing them.
	lost, failed complaints
}

// news is that a process has something new, or that it does not answer.
type news struct {
	from     inspect.Source
	revision uint64
	err      error
}

// await waits until a process has something new, or others are there than before; where
// something failed, no longer than until that can be tried again. It says whether to
// look again.
func (w *watching) await(ctx context.Context, failed bool) bool {
	if failed && pause(ctx, retryRest) {
		if w.mayLook() {
			w.lookAgain(ctx)
		}
		return ctx.Err() == nil
	}
	awaiting, stop := context.WithCancel(ctx)
	defer stop()
	all := make(chan news)
	for _, s := range w.sources {
		go awaitOne(awaiting, s, w.revisions[s], all)
	}
	every := lookCluster
	if w.folder != nil {
		every = lookFolder
	}
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case first := <-all:
			if first.err == nil {
				w.revisions[first.from] = first.revision
				return true
			}
			delete(w.revisions, first.from) // What it says next is news.
			if !w.mayLook() {
				continue
			}
		case <-look.C:
		}
		if w.lookAgain(ctx) {
			return true
		}
	}
}

// mayLook says whether a failure is reason to look which processes there are: it costs
// nothing in a folder, and in a cluster a list of Leases.
func (w *watching) mayLook() bool { return w.folder != nil || time.Since(w.looked) >= lookFailed }

// awaitOne tells of the first news of a process, and before that of each failure.
func awaitOne(ctx context.Context, s inspect.Source, since uint64, all chan<- news) {
	for {
		revision, err := s.Await(ctx, since)
		select {
		case <-ctx.Done():
			return
		case all <- news{s, revision, err}:
		}
		if err == nil || !pause(ctx, retryRest) {
			return
		}
		since = 0
	}
}

// lookAgain looks which processes there are, and says whether these are others than
// before.
func (w *watching) lookAgain(ctx context.Context) bool {
	before := slices.Clone(w.sources)
	err := w.look(ctx)
	if ctx.Err() == nil {
		w.complain(&w.lost, err)
	}
	for s := range w.revisions {
		if !slices.Contains(w.sources, s) {
			delete(w.revisions, s)
		}
	}
	return !slices.Equal(before, w.sources)
}

// complain warns of a problem, unless it was the same before.
func (w *watching) complain(before *complaints, err error) {
	if err == nil {
		before.tell(w.stderr)
		return
	}
	before.tell(w.stderr, err)
}
