package operator

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// folder is a private temporary folder: the Python package, the socket, and a kubeconfig.
type folder string

// folderPrefix begins the name of a folder.
const folderPrefix = "setpoint-operator-"

// newFolder returns a new folder and the function that removes it.
func newFolder() (f folder, remove func(), err error) {
	removeStale()
	path, err := os.MkdirTemp("", folderPrefix) // 0700.
	if err == nil {
		f = folder(path)
		remove, err = f.hold()
	}
	if err != nil {
		f.remove()
		return "", nil, fmt.Errorf("create a temporary folder for the operator: %w; it must be writable: set TMPDIR, or mount an "+
			"emptyDir at /tmp", err)
	}
	return f, remove, nil
}

func (f folder) python() string     { return filepath.Join(string(f), "python") }
func (f folder) socket() string     { return filepath.Join(string(f), "socket") }
func (f folder) kubeconfig() string { return filepath.Join(string(f), "kubeconfig") }

// maxSocketPath is the longest path of a Unix socket on macOS; Linux allows some bytes more.
const maxSocketPath = 103

// checkSocket rejects a folder in which the system cannot open a socket.
func (f folder) checkSocket() error {
	if path := f.socket(); len(path) > maxSocketPath {
		return fmt.Errorf("the socket %s has a path of more than %d bytes: set TMPDIR to a shorter folder", path, maxSocketPath)
	}
	return nil
}

// extract writes the Python package.
func (f folder) extract(source fs.FS) error {
	if err := os.CopyFS(f.python(), source); err != nil {
		return fmt.Errorf("extract the Python package: %w", err)
	}
	return nil
}

func (f folder) remove() {
	if f != "" {
		_ = os.RemoveAll(string(f)) // What is left of a temporary folder does not matter.
	}
}
