package dev

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/dev/watch"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// applyAll applies the manifests of all projects for the first time. Errors are shown and
// the manifests are applied again when a file changes, unless a command needs them.
func (s *session) applyAll(ctx context.Context) error {
	var problems []error
	for _, w := range s.projects {
		if len(w.Apply) == 0 {
			continue
		}
		phase := s.Reporter.Phase("apply " + w.Name())
		err := s.applyFirst(ctx, w)
		if err != nil {
			phase.Fail()
			problems = append(problems, err)
			s.unapplied = append(s.unapplied, w.Name())
			continue
		}
		phase.Done(fmt.Sprintf("%d objects", len(w.applied)))
	}
	err := errors.Join(problems...)
	if err == nil || len(s.Command) > 0 || ctx.Err() != nil {
		return err
	}
	s.Reporter.Problem(err)
	return nil
}

func (s *session) applyFirst(ctx context.Context, w *workspace) error {
	changes, err := w.manifests.Sync(ctx)
	w.applied = changes.Applied
	changes.Applied = nil // The phase shows how many.
	w.changed = "apply " + w.Name()
	s.record(w, 0, changes, err)
	if err != nil {
		return err
	}
	return s.pruneFirst(ctx, w)
}

// watchFiles reloads manifests and processes when files change.
func (s *session) watchFiles(ctx context.Context) error {
	watcher, err := watch.New(s.watched())
	if err != nil {
		return err
	}
	bursts := make(chan []string)
	s.background.Go(func() {
		watcher.Run(ctx, func(paths []string) {
			select {
			case bursts <- paths:
			case <-ctx.Done():
			}
		})
	})
	s.background.Go(func() { s.reloadAll(ctx, bursts) })
	return nil
}

// reloadAll reloads what each burst of changes concerns, and deletes objects once the files have stayed the same.
func (s *session) reloadAll(ctx context.Context, bursts <-chan []string) {
	quiet := time.NewTimer(prunePause)
	for {
		var applied bool
		select {
		case <-ctx.Done():
			return
		case paths := <-bursts:
			applied = s.reload(ctx, paths)
		case <-quiet.C:
			applied = s.prune(ctx)
		}
		if applied { // Other files may change all the time.
			quiet.Reset(prunePause)
		}
	}
}

// watched returns the folders to watch. Around manifest files that were named one by one, such as
// in a home folder, there may be anything: these folders are watched without their subfolders.
func (s *session) watched() (dirs, flat []string) {
	for _, w := range s.projects {
		of := &flat
		if w.HasFile() {
			of = &dirs
			dirs = append(dirs, w.Dir)
		}
		*of = append(*of, lists.Map(w.Apply, filepath.Dir)...)
	}
	for _, l := range s.locals {
		dirs = append(dirs, l.Dir)
		dirs = append(dirs, lists.Map(l.sources.paths, filepath.Dir)...)
	}
	for _, all := range []*[]string{&dirs, &flat} {
		slices.Sort(*all)
		*all = slices.Compact(*all)
	}
	return dirs, flat
}

// reload handles a burst of changed files. Processes are restarted first, because they
// start while manifests are applied. It reports whether there were changed manifests.
func (s *session) reload(ctx context.Context, paths []string) (applied bool) {
	for _, l := range s.locals {
		if i := slices.IndexFunc(paths, l.sources.contains); i >= 0 {
			l.process.Restart(filepath.Base(paths[i]) + " changed")
		}
	}
	s.restartPrograms(paths)
	for _, w := range s.projects {
		if slices.Contains(paths, filepath.Join(w.Dir, project.FileName)) {
			s.Reporter.Line("! %s changed: restart setpoint dev to use it", w.File)
		}
		isManifest := func(path string) bool { return isManifestOf(w.Project, path) }
		if i := slices.IndexFunc(paths, isManifest); i >= 0 {
			s.resync(ctx, w, filepath.Base(paths[i]))
			applied = true
		}
	}
	return applied
}

// restartPrograms reconciles the objects of controllers whose exec hooks have changed. Their next call starts
// the program anew.
func (s *session) restartPrograms(paths []string) {
	if s.Programs == nil {
		return
	}
	var changed []string
	for _, path := range paths {
		changed = append(changed, s.Programs.Using(path)...)
	}
	slices.Sort(changed)
	for _, name := range slices.Compact(changed) {
		s.manager.HookRestarted("exec:" + name)
	}
}

// resync applies the changed manifests of a project.
func (s *session) resync(ctx context.Context, w *workspace, changed string) {
	began := time.Now()
	changes, err := w.manifests.Sync(ctx)
	if ctx.Err() != nil {
		return
	}
	w.changed = changed + " changed"
	s.reportSync(w, time.Since(began), changes, err)
}

// reportSync shows what a Sync after a change has done: also that an error is gone without anything to apply.
func (s *session) reportSync(w *workspace, took time.Duration, changes manifest.Changes, err error) {
	s.record(w, took, changes, err)
	switch {
	case err != nil:
		s.Reporter.Problem(err)
	case w.failed && len(changes.Applied)+len(changes.Deleted) == 0:
		s.Reporter.Event(took, "%s: the manifests are again as they were applied", w.changed)
	}
	w.failed = err != nil
}
