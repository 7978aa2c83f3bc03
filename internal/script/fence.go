package script

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
)

// niceness makes that the children do not starve their parent.
const niceness = 5

// limits of the process besides memory: it can open no file or socket, and writes to pipes only.
var limits = []struct {
	name     string
	resource int
}{
	{"core dumps", syscall.RLIMIT_CORE},
	{"file sizes", syscall.RLIMIT_FSIZE},
	{"open files", syscall.RLIMIT_NOFILE},
}

// raiseFence gives up what this process has or may do: its environment, directory and inherited files,
// memory beyond a limit, further files, and on Linux all system calls that the engines do not need. It
// cannot be undone.
func raiseFence(memoryBytes int64) error {
	// Where a runtime error happened would only hide what it was.
	debug.SetTraceback("none")
	runtime.GOMAXPROCS(1)
	os.Clearenv()
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := closeInherited(); err != nil {
		return fmt.Errorf("close inherited files: %w", err)
	}
	yieldToOthers()
	if err := limitMemory(memoryBytes); err != nil {
		return fmt.Errorf("limit memory: %w", err)
	}
	for _, l := range limits {
		if err := syscall.Setrlimit(l.resource, &syscall.Rlimit{}); err != nil {
			return fmt.Errorf("limit %s: %w", l.name, err)
		}
	}
	return limitSystemCalls()
}

// closeInherited closes files that this process had from its start. Go's own have no type.
func closeInherited() error {
	folder, err := os.Open("/dev/fd")
	if err != nil {
		return err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		var fd int
		if _, err := fmt.Sscan(name, &fd); err != nil || fd <= syscall.Stderr || fd == int(folder.Fd()) {
			continue
		}
		var about syscall.Stat_t
		if syscall.Fstat(fd, &about) == nil && about.Mode&syscall.S_IFMT != 0 {
			_ = syscall.Close(fd)
		}
	}
	return nil
}

// limitMemory limits the memory that the process has for itself to that many bytes more than it has
// now. The garbage collector works harder from three quarters of it.
func limitMemory(bytes int64) error {
	if bytes <= 0 {
		return nil
	}
	data, space, err := memorySizes()
	if err != nil {
		return err
	}
	debug.SetMaxStack(int(bytes / 4)) // Endless recursion would fill it.
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	debug.SetMemoryLimit(int64(stats.Sys-stats.HeapReleased) + bytes/4*3)
	if err := setLimit(syscall.RLIMIT_DATA, data+bytes); err != nil || space == 0 {
		return err
	}
	// Go's heap grows in address space that it has reserved. The limit of data counts that only with the
	// next allocation: a single large one would have no limit.
	arenas := (bytes + arena - 1) / arena * arena
	return setLimit(syscall.RLIMIT_AS, space+arenas+heapMetadata)
}

const (
	// arena is what the heap reserves at once.
	arena = 64 << 20
	// heapMetadata is what it needs beside arenas.
	heapMetadata = 16 << 20
)

func setLimit(resource int, limit int64) error {
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: uint64(limit), Max: uint64(limit)})
}
