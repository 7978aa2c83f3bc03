//go:build unix

package manager

import "syscall"

// maxOpenFiles is how many files, and so connections, the process may have open.
func maxOpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultMaxFiles
	}
	return int(min(limit.Cur, defaultMaxFiles))
}
