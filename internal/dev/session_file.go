package dev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
)

// sessionFile is the path of a file that one session has for itself while it runs, also if others have the same name.
// A session that was killed leaves the file, which the next one replaces.
type sessionFile struct {
	path string
	// lock is held until the session ends. The file itself may be replaced meanwhile.
	lock *os.File
}

// claimFile returns the first file of a name that no other session has: NAME.EXT, NAME-2.EXT and so on.
func claimFile(folder, name, extension string) (*sessionFile, error) {
	for i := 1; ; i++ {
		base := filepath.Join(folder, name)
		if i > 1 {
			base = fmt.Sprintf("%s-%d", base, i)
		}
		lock, err := claimLock(base + ".lock")
		if err != nil {
			return nil, fmt.Errorf("claim a file for the session: %w", err)
		}
		if lock != nil {
			return &sessionFile{base + extension, lock}, nil
		}
	}
}

// claimLock locks a file that it creates; nil if another process holds the lock.
func claimLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if locate.Lock(file) != nil {
		return nil, file.Close()
	}
	// The process that had it may have removed it between the two.
	ours, err := file.Stat()
	if now, statErr := os.Stat(path); err == nil && (statErr != nil || !os.SameFile(ours, now)) {
		_ = file.Close()
		return claimLock(path)
	}
	return file, err
}

// remove removes the file, which another session may have from now on.
func (f *sessionFile) remove() error {
	err := os.Remove(f.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(f.lock.Name()), f.lock.Close())
}
