//go:build !linux

package script

import (
	"errors"
	"syscall"
)

func read(fd uintptr, to []byte) (int, error) { return repeat(syscall.Read, fd, to) }

func write(fd uintptr, from []byte) (int, error) { return repeat(syscall.Write, fd, from) }

func repeat(call func(int, []byte) (int, error), fd uintptr, text []byte) (int, error) {
	for {
		n, err := call(int(fd), text)
		if !errors.Is(err, syscall.EINTR) {
			return max(0, n), err
		}
	}
}
