package operator

import (
	"os"
	"path/filepath"
	"syscall"
)

// lock is the name of a file that is locked while Setpoint uses the folder. The kernel removes the
// lock however Setpoint ends.
const lock = "lock"

// hold locks the folder, and returns the function that removes it. The file gets its name after
// it is locked, so that no other process finds it without a lock.
func (f folder) hold() (remove func(), err error) {
	file, err := os.Create(filepath.Join(string(f), "locking"))
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
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
		file, err := os.Open(path)
		if err != nil {
			continue // It is that of another user, or gone.
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			folder(filepath.Dir(path)).remove()
		}
		_ = file.Close()
	}
}
