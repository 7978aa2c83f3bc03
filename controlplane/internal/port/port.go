// Package port reserves loopback ports for processes that bind them later, and
// again after each restart.
//
// To get a free port from the kernel and close it is a race: another process may get
// the port before the child binds it. Here the parent keeps the port bound,
// without listening, for as long as the cluster lives; the child binds the same
// port with SO_REUSEPORT. The kernel gives it to no other process that requests
// port zero, and refuses connections at once while the child is down.
package port

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reservation holds one loopback port.
type Reservation struct {
	fd     int
	number int
}

// Reserve binds the wanted loopback port, or any free one if it is 0 or taken.
func Reserve(wanted int) (*Reservation, error) {
	if wanted != 0 {
		if r, err := reserve(wanted); err == nil {
			return r, nil
		}
	}
	r, err := reserve(0)
	if err != nil {
		return nil, fmt.Errorf("reserve a loopback port: %w", err)
	}
	return r, nil
}

// Number is the port.
func (r *Reservation) Number() int { return r.number }

// Release gives the port back.
func (r *Reservation) Release() { _ = unix.Close(r.fd) }

func reserve(number int) (_ *Reservation, err error) {
	fd, err := socket()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
		}
	}()
	if number != 0 && inUse(number) {
		return nil, unix.EADDRINUSE
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, loopback(number)); err != nil {
		return nil, err
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return nil, err
	}
	return &Reservation{fd: fd, number: bound.(*unix.SockaddrInet4).Port}, nil
}

// inUse says whether another process has the port: binding it without
// SO_REUSEPORT fails even if that process would share it.
func inUse(number int) bool {
	fd, err := socket()
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	// TIME_WAIT leftovers of the previous run must not count as use.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	return unix.Bind(fd, loopback(number)) != nil
}

// socket opens a socket that no child inherits, not even one that is being
// started at this very moment.
func socket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	return fd, nil
}

func loopback(number int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: number, Addr: [4]byte{127, 0, 0, 1}}
}
