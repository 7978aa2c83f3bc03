//go:build !linux

package script

// memorySizes are not known: only Linux has /proc.
func memorySizes() (data, space int64, err error) { return 0, 0, nil }

func yieldToOthers() {}

// limitSystemCalls does nothing: only Linux has seccomp.
func limitSystemCalls() error { return nil }
