package dev

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

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
		err := w.applyFirst(ctx)
		if err != nil {
			problems = append(problems, err)
			s.unapplied = append(s.unapplied, w.Name())
		}
		phase.End(err, fmt.Sprintf("%d objects", len(w.applied)))
	}
	err := errors.Join(problems...)
	if err == nil || len(s.Command) > 0 || ctx.Err() != nil {
		return err
	}
	s.Reporter.Problem(err)
	return nil
}

// watchFiles reloads manifests and processes when files change. Where it cannot watch them, it says so.
func (s *session) watchFiles(ctx context.Context) error {
	watcher, err := watch.New(s.watched())
	if err != nil {
		s.Reporter.Problem(fmt.Errorf("%w: changed files need a new session (if too many programs watch files: sysctl fs.inotify)", err))
		return nil
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
			for _, w := range s.projects {
				applied = w.pruneMissing(ctx) || applied
			}
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
		manifests := lists.Map(w.Apply, filepath.Dir)
		if w.HasFile() {
			dirs = lists.Union(dirs, append(manifests, w.Dir))
		} else {
			flat = lists.Union(flat, manifests)
		}
	}
	for _, l := range s.locals {
		dirs = lists.Union(dirs, append(lists.Map(l.sources.paths, filepath.Dir), l.Dir))
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
			w.resync(ctx, filepath.Base(paths[i]))
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
	changed := lists.FlatMap(paths, s.Programs.Using)
	slices.Sort(changed)
	for _, name := range slices.Compact(changed) {
		s.manager.HookRestarted("exec:" + name)
	}
}
