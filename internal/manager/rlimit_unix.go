//go:build unix

package manager

import "syscall"

// maxOpenFiles returns the limit of open files, and so of connections.
func maxOpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultMaxFiles
	}
	return int(min(limit.Cur, defaultMaxFiles))
}
