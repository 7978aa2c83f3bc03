//go:build !linux

package script

// dataSize is not known: only Linux has /proc.
func dataSize() (int64, error) { return 0, nil }

func yieldToOthers() {}

// limitSystemCalls does nothing: only Linux has seccomp.
func limitSystemCalls() error { return nil }
