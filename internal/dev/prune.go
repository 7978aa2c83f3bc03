package dev

import (
	"context"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// prunePause is how long files must stay the same before objects that they no longer hold are deleted. A save in
// several steps ends within it; a CRD that is missing for a moment would take all objects of its kind with it.
const prunePause = 3 * time.Second

// pruneFirst deletes what former sessions have applied and the files no longer hold, before the session is ready.
func (s *session) pruneFirst(ctx context.Context, w *workspace) error {
	for len(w.missing) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(prunePause):
		}
		if err := s.pruneOne(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// prune deletes what the files of any project no longer hold, if they have not changed since. It reports whether
// there was any.
func (s *session) prune(ctx context.Context) (pruned bool) {
	for _, w := range s.projects {
		if len(w.missing) == 0 {
			continue
		}
		pruned = true
		if err := s.pruneOne(ctx, w); err != nil && ctx.Err() == nil {
			s.Reporter.Problem(err)
		}
	}
	return pruned
}

func (s *session) pruneOne(ctx context.Context, w *workspace) error {
	began := time.Now()
	changes, err := w.manifests.Prune(ctx)
	s.record(w, time.Since(began), changes, err)
	return err
}

// record shows what a Sync or Prune has done, and updates the lists of applied and missing objects.
func (s *session) record(w *workspace, took time.Duration, c manifest.Changes, err error) {
	for _, key := range c.Applied {
		s.Reporter.Event(took, "%s: applied %s", w.changed, key)
	}
	for _, key := range c.Deleted {
		s.Reporter.Event(took, "%s: deleted %s, which no manifest holds any more", w.changed, key)
	}
	for _, key := range c.Missing {
		if !slices.Contains(w.missing, key) {
			s.Reporter.Warning("%s: no manifest holds %s any more; it is deleted after %s without a change", w.changed, key, prunePause)
		}
	}
	for _, key := range w.missing {
		if err == nil && !slices.Contains(c.Missing, key) && !slices.Contains(c.Deleted, key) {
			s.Reporter.Line("  %s: %s is in a manifest again, and stays", w.changed, key)
		}
	}
	w.missing = c.Missing
	w.applied = slices.DeleteFunc(w.applied, func(key object.Ref) bool { return slices.Contains(c.Deleted, key) })
	w.applied = append(w.applied, c.Applied...)
}
