//go:build !linux

package machine

import (
	"fmt"
	"runtime"
)

func checks() []func(string) error {
	return []func(string) error{func(string) error { return fmt.Errorf("Linux, and this is %s", runtime.GOOS) }}
}
