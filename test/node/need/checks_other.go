//go:build !linux

package main

import (
	"fmt"
	"runtime"
)

var checks = []func(string) error{func(string) error { return fmt.Errorf("Linux, and this is %s", runtime.GOOS) }}
