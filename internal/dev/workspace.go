package dev

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// prunePause is how long files must stay the same before objects that they no longer hold are deleted. A save in
// several steps ends within it; a CRD that is missing for a moment would take all objects of its kind with it.
const prunePause = 3 * time.Second

// workspace is a project and its applied manifests.
type workspace struct {
	*project.Project
	reporter  *progress.Reporter
	manifests *manifest.Set
	applied   []object.Ref
	// missing are applied objects that the files do not hold now, to be deleted unless they return.
	missing []object.Ref
	// changed says what was applied last, such as "tenant.yaml changed".
	changed string
	// failed reports that the latest changes could not be applied.
	failed bool

	mu sync.Mutex
	// held are the controllers in the manifests, as they were read last.
	held []string
}

// applyFirst applies the manifests, and deletes what former sessions have applied and the files no longer hold.
func (w *workspace) applyFirst(ctx context.Context) error {
	changes, err := w.manifests.Sync(ctx)
	w.applied = changes.Applied
	changes.Applied = nil // The phase shows how many.
	w.changed = "apply " + w.Name()
	w.record(0, changes, err)
	for err == nil && len(w.missing) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(prunePause):
			err = w.prune(ctx)
		}
	}
	return err
}

// prune deletes what the files no longer hold, if they have not changed since.
func (w *workspace) prune(ctx context.Context) error {
	began := time.Now()
	changes, err := w.manifests.Prune(ctx)
	w.record(time.Since(began), changes, err)
	return err
}

// pruneMissing is prune if the files do not hold some objects, which it reports.
func (w *workspace) pruneMissing(ctx context.Context) bool {
	if len(w.missing) == 0 {
		return false
	}
	if err := w.prune(ctx); err != nil && ctx.Err() == nil {
		w.reporter.Problem(err)
	}
	return true
}

// resync applies changed manifests.
func (w *workspace) resync(ctx context.Context, changed string) {
	began := time.Now()
	changes, err := w.manifests.Sync(ctx)
	if ctx.Err() != nil {
		return
	}
	w.changed = changed + " changed"
	w.reportSync(time.Since(began), changes, err)
}

// reportSync shows what a Sync after a change has done: also that an error is gone without anything to apply.
func (w *workspace) reportSync(took time.Duration, changes manifest.Changes, err error) {
	w.record(took, changes, err)
	switch {
	case err != nil:
		w.reporter.Problem(err)
	case w.failed && len(changes.Applied)+len(changes.Deleted) == 0:
		w.reporter.Event(took, "%s: the manifests are again as they were applied", w.changed)
	}
	w.failed = err != nil
}

// record shows what a Sync or Prune has done, and updates the lists of applied and missing objects.
func (w *workspace) record(took time.Duration, c manifest.Changes, err error) {
	for _, ref := range c.Applied {
		w.reporter.Event(took, "%s: applied %s", w.changed, ref)
	}
	for _, ref := range c.Deleted {
		w.reporter.Event(took, "%s: deleted %s, which no manifest holds any more", w.changed, ref)
	}
	for _, ref := range c.Missing {
		if !slices.Contains(w.missing, ref) {
			w.reporter.Warning("%s: no manifest holds %s any more; it is deleted after %s without a change", w.changed, ref, prunePause)
		}
	}
	for _, ref := range w.missing {
		if err == nil && !slices.Contains(c.Missing, ref) && !slices.Contains(c.Deleted, ref) {
			w.reporter.Line("  %s: %s is in a manifest again, and stays", w.changed, ref)
		}
	}
	w.missing = c.Missing
	w.applied = slices.DeleteFunc(w.applied, func(ref object.Ref) bool { return slices.Contains(c.Deleted, ref) })
	w.applied = append(w.applied, c.Applied...)
}

// holds reports whether the manifests hold a controller. While a file cannot be read, what was read before counts.
func (w *workspace) holds(controller string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if documents, err := manifest.Read(w.Apply); err == nil {
		w.held = nil
		for _, d := range documents {
			ref := manifest.RefOf(d.Object)
			w.held = append(w.held, strings.ToLower(ref.Kind.Kind)+"."+ref.Group+"/"+ref.Name)
		}
	}
	return slices.Contains(w.held, controller)
}
