//go:build !linux

package scripttest

// limitMemory does nothing: other systems do not keep a limit of memory.
func limitMemory() error { return nil }
