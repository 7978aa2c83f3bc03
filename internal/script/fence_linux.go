package script

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// memorySizes are what RLIMIT_DATA and RLIMIT_AS limit.
func memorySizes() (data, space int64, err error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, 0, err
	}
	var resident, shared, code, libraries int64
	if _, err := fmt.Sscan(string(text), &space, &resident, &shared, &code, &libraries, &data); err != nil {
		return 0, 0, fmt.Errorf("unknown form of /proc/self/statm: %q", text)
	}
	page := int64(os.Getpagesize())
	return data * page, space * page, nil
}

// yieldToOthers lowers the priority of all threads, and makes that the kernel kills this process
// before its parent when memory is short. Some sandboxes refuse that, and no limit depends on it.
func yieldToOthers() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, niceness) // New threads have that of their creator.
		}
	}
}

// allowed are the system calls of Go's runtime and of reading and writing open files. Those that an
// architecture does not have are left out.
var allowed = []string{
	"read", "write", "close", "epoll_ctl", "epoll_wait", "epoll_pwait",
	"munmap", "madvise", "mincore",
	"futex", "sched_yield", "nanosleep", "clock_nanosleep", "restart_syscall", "set_robust_list", "rseq",
	"clock_gettime", "gettimeofday", "getrandom", "getpid", "gettid",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
	"exit", "exit_group",
}

// limitSystemCalls refuses all system calls but those, for all threads: no files, sockets, programs,
// processes, signals to others, or code that is made in memory.
func limitSystemCalls() error {
	info, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	// The lower bits of clone are a signal, and the flags are the first argument everywhere.
	conditional := []seccomp.NameWithConditions{
		{Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsSet, Value: syscall.CLONE_THREAD}}},
		{Name: "mmap", Conditions: seccomp.ArgumentConditions{{Argument: 2, Operation: seccomp.BitsNotSet, Value: syscall.PROT_EXEC}}},
		{Name: "mprotect", Conditions: seccomp.ArgumentConditions{{Argument: 2, Operation: seccomp.BitsNotSet, Value: syscall.PROT_EXEC}}},
		{Name: "tgkill", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: uint64(os.Getpid())}}},
	}
	err = seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true, Flag: seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{
			{Action: seccomp.ActionAllow, Names: namesOf(info, allowed), NamesWithCondtions: conditional},
			// The C library, if it is linked, then starts a thread by clone.
			{Action: seccomp.ActionErrno | seccomp.Action(syscall.ENOSYS), Names: []string{"clone3"}},
		}},
	})
	if err != nil {
		return err
	}
	// The system call that loads the filter returns no error if a thread does not accept it.
	if _, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0); !errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("the filter of system calls is not in force: a socket can be opened: %w", err)
	}
	return nil
}

func namesOf(info *arch.Info, names []string) []string {
	return lists.Filter(names, func(name string) bool {
		_, known := info.SyscallNames[name]
		return known
	})
}
