package scripttest

import "syscall"

// limitMemory is what the fences of the process do, at most. A limit of the address space does not
// fit: Starlark reserves 4 GiB of it, which it does not use.
func limitMemory() error {
	const limit = 512 << 20
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: limit, Max: limit})
}
