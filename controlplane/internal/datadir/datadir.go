// Package datadir is the folder a cluster lives in: where each file of it goes,
// who may use it, and whether it outlives the cluster.
//
// A folder belongs to one process at a time (a file lock says which), carries a
// mark that says it is ours, and is readable by its owner only, since it holds
// private keys. What is in the files is other packages' business.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// layout is raised when an older program could no longer use the folder.
const layout = 1

const (
	metadataFile   = "cluster.json"
	tempGlob       = "setpoint-cluster-*"
	subdirectories = 0o700
)

// Metadata is stored in the folder between runs.
type Metadata struct {
	Layout int `json:"layout"`
	// Temporary folders may be removed by anybody who finds them abandoned.
	Temporary bool `json:"temporary,omitempty"`
	// Ports by component: the same ones are tried again, so that kubeconfigs
	// handed out earlier stay valid.
	Ports map[string]int `json:"ports,omitempty"`
}

// Dir is a folder in use by this process.
type Dir struct {
	path     string
	metadata Metadata
	lock     *os.File
}

// Open takes possession of a folder, making it if need be. An empty path stands
// for a temporary one, which Close removes.
func Open(path string) (*Dir, error) {
	if path == "" {
		return openTemporary()
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	if err := refuseForeign(path); err != nil {
		return nil, err
	}
	return open(path, Metadata{Layout: layout})
}

func openTemporary() (*Dir, error) {
	sweep(os.TempDir())
	path, err := os.MkdirTemp("", tempGlob)
	if err != nil {
		return nil, fmt.Errorf("make temporary data directory: %w", err)
	}
	return open(path, Metadata{Layout: layout, Temporary: true})
}

// sweep removes what clusters killed by SIGKILL left behind: temporary folders
// of ours that no process holds. Finding nothing, or not being allowed to, is
// no reason to fail.
func sweep(parent string) {
	paths, _ := filepath.Glob(filepath.Join(parent, tempGlob))
	for _, path := range paths {
		metadata, err := readMetadata(path)
		if err != nil || !metadata.Temporary {
			continue
		}
		if dir, err := open(path, metadata); err == nil {
			_ = dir.Close()
		}
	}
}

func open(path string, fresh Metadata) (*Dir, error) {
	if err := os.MkdirAll(path, subdirectories); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := acquire(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: lock, metadata: fresh}
	if err := d.initialize(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return d, nil
}

// initialize reads or writes the mark, and makes the folders inside.
func (d *Dir) initialize() error {
	metadata, err := readMetadata(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = d.save()
	case err == nil:
		d.metadata = metadata
	}
	if err != nil {
		return err
	}
	for _, sub := range []string{d.Path("logs"), d.Path("pki"), d.Path("run")} {
		if err := os.MkdirAll(sub, subdirectories); err != nil {
			return fmt.Errorf("make data directory: %w", err)
		}
	}
	return nil
}

// refuseForeign protects folders that hold something else.
func refuseForeign(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read data directory: %w", err)
	}
	foreign := len(entries) > 0
	for _, entry := range entries {
		if name := entry.Name(); name == metadataFile || name == lockFile {
			foreign = false
			break
		}
	}
	if foreign {
		return fmt.Errorf("data directory %s is not empty and holds no cluster of ours (no %s in it): choose another one or empty it",
			path, metadataFile)
	}
	return nil
}

func readMetadata(path string) (Metadata, error) {
	file := filepath.Join(path, metadataFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return Metadata{}, fmt.Errorf("read mark of the data directory: %w", err)
	}
	var metadata Metadata
	if err := json.Unmarshal(text, &metadata); err != nil {
		return Metadata{}, fmt.Errorf("data directory is damaged: read %s: %w", file, err)
	}
	if metadata.Layout != layout {
		return Metadata{}, fmt.Errorf("data directory %s has layout %d, this program reads layout %d: use another directory",
			path, metadata.Layout, layout)
	}
	return metadata, nil
}

func (d *Dir) save() error {
	text, err := json.MarshalIndent(d.metadata, "", "  ")
	if err != nil {
		return fmt.Errorf("encode mark of the data directory: %w", err)
	}
	return d.Write(metadataFile, append(text, '\n'))
}

// Path is the place of a file in the folder.
func (d *Dir) Path(elements ...string) string {
	return filepath.Join(append([]string{d.path}, elements...)...)
}

// Temporary says whether Close removes the folder.
func (d *Dir) Temporary() bool { return d.metadata.Temporary }

// Port is the port a component had when the folder was last used, or 0.
func (d *Dir) Port(component string) int { return d.metadata.Ports[component] }

// RememberPorts keeps the ports for the next run.
func (d *Dir) RememberPorts(ports map[string]int) error {
	d.metadata.Ports = ports
	return d.save()
}

// Write puts a file into the folder, whole or not at all.
func (d *Dir) Write(name string, content []byte) error {
	return WriteFile(d.Path(name), content)
}

// WriteFile puts a file, readable by its owner only, whole or not at all.
func WriteFile(path string, content []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = temp.Write(content)
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Unlock gives the folder up as it is, so that it can be looked at.
func (d *Dir) Unlock() { _ = d.lock.Close() }

// Close gives the folder up and removes it if it was a temporary one.
func (d *Dir) Close() error {
	var err error
	if d.metadata.Temporary {
		err = os.RemoveAll(d.path)
	} else {
		err = release(d.path)
	}
	_ = d.lock.Close()
	if err != nil {
		return fmt.Errorf("unlock data directory: %w", err)
	}
	return nil
}
