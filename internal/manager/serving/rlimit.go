package serving

import "syscall"

// defaultMaxFiles is the limit of a process without one, as far as it is useful.
const defaultMaxFiles = 64 << 10

// EnoughOpenFiles is the limit of open files from which on it limits no connections.
const EnoughOpenFiles = 4 * 512

// maxReviewConnections limits the connections of API servers: half of the files are for
// hooks, and the rest must leave some for health, metrics and the API server.
func maxReviewConnections(files int) int { return max(4, min(EnoughOpenFiles, files)/4) }

// MaxOpenFiles returns the limit of open files, and so of connections.
func MaxOpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultMaxFiles
	}
	return int(min(limit.Cur, defaultMaxFiles))
}
