//go:build !linux

package memory

func releaseProgram() {}
