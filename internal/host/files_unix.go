//go:build unix

package host

import "syscall"

// openFiles is how many files, and so connections, the process may have open.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return usualFiles
	}
	return int(min(limit.Cur, usualFiles))
}
