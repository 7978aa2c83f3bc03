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
	"github.com/setpoint-dev/setpoint/internal/object"
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
		changes, err := w.manifests.Sync(ctx)
		w.applied = changes.Applied
		if err != nil {
			phase.Fail()
			problems = append(problems, err)
			s.unapplied = append(s.unapplied, w.Name())
			continue
		}
		phase.Done(fmt.Sprintf("%d objects", len(changes.Applied)))
	}
	err := errors.Join(problems...)
	if err == nil || len(s.Command) > 0 || ctx.Err() != nil {
		return err
	}
	s.Reporter.Problem(err)
	return nil
}

// watchFiles reloads manifests and processes when files change.
func (s *session) watchFiles(ctx context.Context) error {
	watcher, err := watch.New(s.watched())
	if err != nil {
		return err
	}
	s.background.Go(func() {
		watcher.Run(ctx, func(paths []string) { s.reload(ctx, paths) })
	})
	return nil
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
		for _, path := range w.Apply {
			*of = append(*of, filepath.Dir(path))
		}
	}
	for _, l := range s.locals {
		dirs = append(dirs, l.Dir)
		for _, path := range l.sources.paths {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, all := range []*[]string{&dirs, &flat} {
		slices.Sort(*all)
		*all = slices.Compact(*all)
	}
	return dirs, flat
}

// reload handles a burst of changed files. Processes are restarted first, because they
// start while manifests are applied.
func (s *session) reload(ctx context.Context, paths []string) {
	for _, l := range s.locals {
		if i := slices.IndexFunc(paths, l.sources.contains); i >= 0 {
			l.process.Restart(filepath.Base(paths[i]) + " changed")
		}
	}
	for _, w := range s.projects {
		s.restartPrograms(w, paths)
		if slices.Contains(paths, filepath.Join(w.Dir, project.FileName)) {
			s.Reporter.Line("! %s changed: restart setpoint dev to use it", w.File)
		}
		isManifest := func(path string) bool { return isManifestOf(w.Project, path) }
		if i := slices.IndexFunc(paths, isManifest); i >= 0 {
			s.resync(ctx, w, filepath.Base(paths[i]))
		}
	}
}

// restartPrograms reconciles the objects of controllers whose exec hooks have changed. Their next call starts
// the program anew.
func (s *session) restartPrograms(w *workspace, paths []string) {
	for _, path := range paths {
		name, err := filepath.Rel(w.Dir, path)
		ofProcess := slices.ContainsFunc(s.locals, func(l *localProcess) bool { return l.sources.contains(path) })
		if err != nil || !filepath.IsLocal(name) || ofProcess {
			continue
		}
		for _, command := range []string{name, "./" + name, path} {
			s.manager.HookRestarted("exec:" + command)
		}
	}
}

// resync applies the changed manifests of a project.
func (s *session) resync(ctx context.Context, w *workspace, changed string) {
	began := time.Now()
	changes, err := w.manifests.Sync(ctx)
	if ctx.Err() != nil {
		return
	}
	took := time.Since(began)
	for _, key := range changes.Applied {
		s.Reporter.Event(took, "%s changed: applied %s", changed, key)
	}
	for _, key := range changes.Deleted {
		s.Reporter.Event(took, "%s changed: deleted %s, which no manifest holds any more", changed, key)
	}
	if err != nil {
		s.Reporter.Problem(err)
	}
	w.recordChanges(changes)
}

// recordChanges updates the list of applied objects.
func (w *workspace) recordChanges(changes manifest.Changes) {
	w.applied = slices.DeleteFunc(w.applied, func(key object.Ref) bool {
		return slices.Contains(changes.Deleted, key)
	})
	w.applied = append(w.applied, changes.Applied...)
}
