package operator

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
)

// folder is a private temporary folder: the Python package, the socket, and a kubeconfig.
type folder string

// folderPrefix begins the name of a folder.
const folderPrefix = "setpoint-operator-"

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
func (f folder) socketPath() string { return filepath.Join(string(f), "socket") }
func (f folder) kubeconfig() string { return filepath.Join(string(f), "kubeconfig") }

// maxSocketPath is the longest path of a Unix socket on macOS; Linux allows some bytes more.
const maxSocketPath = 103

// checkSocket rejects a folder in which the system cannot open a socket.
func (f folder) checkSocket() error {
	if path := f.socketPath(); len(path) > maxSocketPath {
		return fmt.Errorf("the socket %s has a path of more than %d bytes: set TMPDIR to a shorter folder", path, maxSocketPath)
	}
	return nil
}

func (f folder) remove() {
	if f != "" {
		_ = os.RemoveAll(string(f)) // What is left of a temporary folder does not matter.
	}
}

// lock is the name of a file that is locked while Setpoint uses the folder. The kernel removes the
// lock however Setpoint ends.
const lock = "lock"

// hold locks the folder, and returns the function that removes it. The file gets its name after
// it is locked, so that no other process finds it without a lock.
func (f folder) hold() (remove func(), err error) {
	file, err := os.Create(filepath.Join(string(f), "."+lock))
	if err != nil {
		return nil, err
	}
	if err = locate.Lock(file); err == nil {
		err = os.Rename(file.Name(), filepath.Join(string(f), lock))
	}
	return func() {
		f.remove()
		_ = file.Close()
	}, err
}

// removeStale removes the folders of processes that were killed. They may have a kubeconfig.
func removeStale() {
	locks, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*", lock)) // The pattern is valid.
	for _, path := range locks {
		if !locate.IsLocked(path) { // It cannot remove that of another user.
			folder(filepath.Dir(path)).remove()
		}
	}
}

// Kubeconfig says which cluster the process uses: the flags of `setpoint run`.
type Kubeconfig struct{ File, Context string }

// environment returns the variables in which the clients of the process find the same cluster as
// Setpoint. Only a context needs a file of its own, since no variable selects one.
func (k Kubeconfig) environment(written string) ([]string, error) {
	switch {
	case k.Context == "" && k.File == "":
		return nil, nil // $KUBECONFIG, the pod, or ~/.kube/config.
	case k.Context == "":
		path, err := filepath.Abs(k.File)
		return []string{clientcmd.RecommendedConfigPathEnvVar + "=" + path}, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.File
	config, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.CurrentContext = k.Context
	if err := clientcmd.WriteToFile(*config, written); err != nil { // 0600.
		return nil, fmt.Errorf("write a kubeconfig for the operator: %w", err)
	}
	return []string{clientcmd.RecommendedConfigPathEnvVar + "=" + written}, nil
}
