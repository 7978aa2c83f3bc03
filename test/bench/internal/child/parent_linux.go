package child

import "syscall"

// dieWithParent makes a child process end when the bench does, even by -9.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
