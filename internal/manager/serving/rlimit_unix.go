//go:build unix

package serving

import "syscall"

// MaxOpenFiles returns the limit of open files, and so of connections.
func MaxOpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultMaxFiles
	}
	return int(min(limit.Cur, defaultMaxFiles))
}
