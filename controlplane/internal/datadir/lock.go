package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile is locked by the process that uses the folder, and holds its pid and
// command. The lock, not the text, decides: it goes when the process does.
const lockFile = "holder"

// InUseError names the process that holds a folder.
type InUseError struct {
	Path   string
	Holder string // "pid 123 (command line)"
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("data directory %s is in use by %s: stop that process or choose another directory", e.Path, e.Holder)
}

func acquire(path string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of the data directory: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = writeHolder(file)
	}
	if err == nil {
		return file, nil
	}
	defer file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &InUseError{Path: path, Holder: holder(file)}
	}
	return nil, fmt.Errorf("lock data directory %s: %w", path, err)
}

func writeHolder(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(file, "%d\n%s\n", os.Getpid(), strings.Join(os.Args, " "))
	return err
}

func holder(file *os.File) string {
	text := make([]byte, 4096)
	n, _ := file.ReadAt(text, 0)
	pid, command, _ := strings.Cut(strings.TrimSpace(string(text[:n])), "\n")
	if pid == "" {
		return "another process"
	}
	return fmt.Sprintf("pid %s (%s)", pid, command)
}

// release empties the lock file instead of removing it: another process may be waiting to
// lock the same file.
func release(path string) error {
	return os.Truncate(filepath.Join(path, lockFile), 0)
}
