//go:build !unix

package serving

// MaxOpenFiles returns the limit of open files, and so of connections.
func MaxOpenFiles() int { return defaultMaxFiles }
