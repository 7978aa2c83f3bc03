package dev

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
)

// sources are the files of a process. A change restarts it.
type sources struct {
	// paths are files and folders.
	paths []string
	// extensions limit folders to files of the script's language, so that an imported
	// module counts and other files do not.
	extensions []string
	// except excludes files.
	except func(path string) bool
}

// sourcesOf returns the files in setpoint.yaml, else those in the command and their
// folder's files of the same kind, else the whole folder.
func sourcesOf(p *project.Project, process project.Process) sources {
	s := sources{paths: process.Watch, except: func(string) bool { return false }}
	if len(process.Watch) > 0 {
		return s
	}
	for _, file := range process.Written {
		if !filepath.IsAbs(file) {
			file = filepath.Join(process.Dir, file)
		}
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || !inside(process.Dir, file) {
			continue
		}
		s.paths = append(s.paths, file)
		if ext := filepath.Ext(file); ext != "" {
			s.extensions = append(s.extensions, ext)
		}
	}
	if len(s.paths) > 0 && len(s.extensions) == 0 {
		return s
	}
	s.paths = append(s.paths, process.Dir)
	s.except = func(path string) bool { return isManifestOf(p, path) || filepath.Base(path) == project.FileName }
	return s
}

// contains reports whether a file is a source.
func (s sources) contains(path string) bool {
	for _, source := range s.paths {
		if path == source {
			return true
		}
		if inside(source, path) && !s.except(path) {
			return len(s.extensions) == 0 || slices.Contains(s.extensions, filepath.Ext(path))
		}
	}
	return false
}

// isManifestOf reports whether a project applies the file.
func isManifestOf(p *project.Project, path string) bool {
	return slices.ContainsFunc(p.Apply, func(source string) bool {
		return path == source || filepath.Dir(path) == source && manifest.IsManifest(path)
	})
}

func inside(dir, path string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(relative)
}
