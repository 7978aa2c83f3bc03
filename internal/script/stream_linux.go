package script

import (
	"syscall"
	"unsafe"
)

// read and write do not tell the runtime of Go that a system call begins: it would wake its thread that watches
// for blocked calls, whenever the process was idle, which takes longer than a small call of the author's code.
// They do not block.

func read(fd uintptr, to []byte) (int, error) { return transfer(syscall.SYS_READ, fd, to) }

func write(fd uintptr, from []byte) (int, error) { return transfer(syscall.SYS_WRITE, fd, from) }

func transfer(call, fd uintptr, text []byte) (int, error) {
	for {
		//nolint:gosec // as syscall.Read does
		n, _, err := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(text))), uintptr(len(text)))
		switch err {
		case 0:
			return int(n), nil
		case syscall.EINTR:
			continue
		}
		return 0, err
	}
}
