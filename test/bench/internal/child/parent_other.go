//go:build !linux

package child

import "syscall"

// dieWithParent keeps the terminal's Ctrl-C from the child, which the bench
// stops itself.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
