//go:build !unix

package manager

// maxOpenFiles returns the limit of open files, and so of connections.
func maxOpenFiles() int { return defaultMaxFiles }
