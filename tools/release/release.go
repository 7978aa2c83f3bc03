package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/tools/release/install"
)

// release is what one run makes.
type release struct {
	// root is the root of the repository, dir the folder of the artifacts.
	root, dir string
	// version is a semantic version without v.
	version string
	// time is the time of all files: that of the commit.
	time   time.Time
	commit commit
	// builder is the URI of the service that builds; "" for none.
	builder   string
	platforms []platform
	// installOnly leaves out everything but chart and manifests.
	installOnly bool
	// full includes the binary with a control plane.
	full bool
}

// emptyDir empties the folder of the artifacts. A folder with other files is refused: it may be the
// one of the sources.
func (r *release) emptyDir() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("-o: %w", err)
	}
	for _, e := range entries {
		if !isArtifact(e.Name()) {
			return fmt.Errorf("-o: %s is not part of a release, and the folder would be emptied: name another folder",
				filepath.Join(r.dir, e.Name()))
		}
	}
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	return os.MkdirAll(r.dir, 0o755)
}

// isArtifact reports whether a release has a file or folder of this name at its top.
func isArtifact(name string) bool {
	known := []string{"bin", "image", "install", "SHA256SUMS", "setpoint-*", "provenance.*", "*.sigstore.json"}
	return slices.ContainsFunc(known, func(pattern string) bool {
		matched, _ := filepath.Match(pattern, name)
		return matched
	})
}

func writeFiles(dir string, files install.Files) error {
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
