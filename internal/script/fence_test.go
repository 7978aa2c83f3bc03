package script

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"github.com/setpoint-dev/setpoint/internal/must"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fencedVariable makes this test binary a child that obeys the function of each call. Its value is
// the limit of memory.
const fencedVariable = "SCRIPT_TEST_FENCED"

func TestMain(m *testing.M) {
	if memory, err := strconv.ParseInt(os.Getenv(fencedVariable), 10, 64); err == nil {
		server := &Server{Engines: map[string]Engine{"Test": attacker{}}, MemoryBytes: memory}
		if err := server.Serve(); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	smallMemory = 64 << 20
	// raceMemory is enough for the race detector.
	raceMemory = 1 << 30
)

// attacker has what code could try that has escaped from its engine.
type attacker struct{}

func (attacker) Load(Files) (Program, error) { return attacker{}, nil }
func (attacker) Functions() []string         { return nil }

func (attacker) Call(c *Call) ([]byte, error) {
	argument, _ := strconv.Unquote(string(c.Request))
	result, err := attacks[c.Function](argument)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%q", result), nil
}

var attacks = map[string]func(argument string) (string, error){
	"read":   func(path string) (string, error) { _, err := os.ReadFile(path); return "", err },
	"write":  func(path string) (string, error) { return "", os.WriteFile(path, []byte("x"), 0o600) },
	"remove": func(path string) (string, error) { return "", os.Remove(path) },
	"rename": func(path string) (string, error) { return "", os.Rename(path, path+"2") },
	"chmod":  func(path string) (string, error) { return "", os.Chmod(path, 0o777) },
	"stat":   func(path string) (string, error) { _, err := os.Stat(path); return "", err },
	"list":   func(path string) (string, error) { _, err := os.ReadDir(path); return "", err },
	"run":    func(path string) (string, error) { return "", exec.Command(path).Run() },
	"become": func(path string) (string, error) { return "", syscall.Exec(path, []string{path}, nil) },
	"dial":   func(address string) (string, error) { _, err := net.Dial("tcp", address); return "", err },
	"listen": func(address string) (string, error) { _, err := net.Listen("tcp", address); return "", err },
	"unix":   func(address string) (string, error) { _, err := net.Dial("unix", address); return "", err },
	"kill": func(pid string) (string, error) {
		n, _ := strconv.Atoi(pid)
		return "", syscall.Kill(n, syscall.SIGKILL)
	},
	"trace": func(pid string) (string, error) {
		n, _ := strconv.Atoi(pid)
		return "", attachTo(n)
	},
	"pipe": func(string) (string, error) { _, _, err := os.Pipe(); return "", err },
	"limit": func(string) (string, error) {
		return "", syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 10, Max: 10})
	},
	"code": func(string) (string, error) {
		_, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		return "", err
	},
	"thread": func(string) (string, error) { return "", onOtherThread() },
	// What is allowed, or tells what is left.
	"environment": func(string) (string, error) { return strings.Join(os.Environ(), " "), nil },
	"directory":   func(string) (string, error) { dir, err := syscall.Getwd(); return dir, err },
	"descriptors": func(string) (string, error) { return openDescriptors(), nil },
	"threads":     func(string) (string, error) { return manyThreads(), nil },
	"garbage":     func(string) (string, error) { return makeGarbage(), nil },
	"string":      func(string) (string, error) { return fmt.Sprint(len(bytes.Repeat([]byte("x"), 512<<20))), nil },
	"memory":      func(string) (string, error) { return fillMemory(), nil },
	"recursion":   func(string) (string, error) { return fmt.Sprint(recurse(1)), nil },
	"hang": func(string) (string, error) {
		for i := 0; ; i++ {
		}
	},
}

// onOtherThread opens a socket in a new thread, to which the fence applies too.
func onOtherThread() error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // The thread ends with the goroutine.
		_, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		result <- err
	}()
	return <-result
}

func openDescriptors() string {
	var open []string
	for fd := range 1000 {
		var about syscall.Stat_t
		if err := syscall.Fstat(fd, &about); !errors.Is(err, syscall.EBADF) {
			open = append(open, strconv.Itoa(fd))
		}
	}
	return strings.Join(open, " ")
}

// manyThreads starts threads.
func manyThreads() string {
	done := make(chan bool)
	for range 20 {
		go func() {
			runtime.LockOSThread() // Each needs a thread.
			<-time.After(time.Millisecond)
			done <- true
		}()
	}
	for range 20 {
		<-done
	}
	return "done"
}

// makeGarbage allocates more than the limit, but not at once.
func makeGarbage() string {
	n := 0
	for i := range 4000 {
		n += len(bytes.Repeat([]byte{byte(i)}, 1<<16))
	}
	return strconv.Itoa(n)
}

func fillMemory() string {
	var all [][]byte
	for i := 0; ; i++ {
		all = append(all, bytes.Repeat([]byte{1}, 1<<20))
		if len(all) > 10_000 {
			return "10 GB"
		}
	}
}

func recurse(n int) int {
	if n == 0 {
		return 0
	}
	return recurse(n+1) + 1
}

// fenced is a child with the attacker.
type fenced struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

func startFenced(t *testing.T, memory int64) *fenced {
	t.Helper()
	path := must.Get(os.Executable()).In(t)
	inherited := must.Get(os.Open(path)).In(t) // A file that the parent has passed on.
	defer inherited.Close()
	f := &fenced{cmd: exec.Command(path)}
	f.cmd.Env = []string{fmt.Sprint(fencedVariable, "=", memory), "SECRET=swordfish"}
	f.cmd.ExtraFiles = []*os.File{inherited}
	f.cmd.Stderr = &f.stderr
	f.in = must.Get(f.cmd.StdinPipe()).In(t)
	out := must.Get(f.cmd.StdoutPipe()).In(t)
	f.out = bufio.NewReader(out)
	must.Succeed(t, f.cmd.Start())
	t.Cleanup(func() {
		_ = f.cmd.Process.Kill()
		_ = f.cmd.Wait()
	})
	if _, err := f.send(load); err != nil {
		_ = f.cmd.Wait()
		t.Fatalf("it did not start: %s", &f.stderr)
	}
	return f
}

// send sends lines and reads one.
func (f *fenced) send(lines ...string) (string, error) {
	if _, err := io.WriteString(f.in, strings.Join(lines, "\n")+"\n"); err != nil {
		return "", err
	}
	line, err := f.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

func (f *fenced) try(function, argument string) (string, error) {
	return f.send(fmt.Sprintf(`{"function":%q}`, function), strconv.Quote(argument))
}

// Without an engine around it, code can do nothing but calculate.
func TestFence(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // Only Linux has seccomp.
	}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	defer listener.Close()
	f := startFenced(t, raceMemory)
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct{ function, argument, want string }{
		{"read", "/etc/passwd", "operation not permitted"},
		{"read", "/proc/self/environ", "operation not permitted"},
		{"read", fmt.Sprintf("/proc/%d/environ", os.Getpid()), "operation not permitted"},
		{"list", "/proc", "operation not permitted"},
		{"stat", file, "operation not permitted"},
		{"write", file, "operation not permitted"},
		{"remove", file, "operation not permitted"},
		{"rename", file, "operation not permitted"},
		{"chmod", file, "operation not permitted"},
		{"run", "/bin/true", "operation not permitted"},
		{"become", "/bin/true", "operation not permitted"},
		{"dial", listener.Addr().String(), "operation not permitted"},
		{"listen", "127.0.0.1:0", "operation not permitted"},
		{"unix", "/run/socket", "operation not permitted"},
		{"kill", strconv.Itoa(os.Getpid()), "operation not permitted"},
		{"kill", "-1", "operation not permitted"},
		{"kill", "0", "operation not permitted"},
		{"trace", strconv.Itoa(os.Getpid()), "operation not permitted"},
		{"pipe", "", "operation not permitted"},
		{"limit", "", "operation not permitted"},
		{"code", "", "operation not permitted"},
		{"thread", "", "operation not permitted"},
		{"environment", "", `{"response":""}`},
		{"threads", "", `{"response":"done"}`},
		{"garbage", "", `{"response":"262144000"}`},
	} {
		if got, err := f.try(c.function, c.argument); !strings.Contains(got, c.want) || err != nil {
			_ = f.cmd.Wait()
			t.Fatalf("%s %s: %s, %v\n%s", c.function, c.argument, got, err, &f.stderr)
		}
	}
}

// Memory is limited by the operating system.
func TestMemoryLimit(t *testing.T) {
	for function, want := range map[string]string{"memory": "out of memory", "string": "out of memory", "recursion": "stack overflow"} {
		f := startFenced(t, smallMemory)
		got, err := f.try(function, "")
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %s, %v", function, got, err)
		}
		_ = f.cmd.Wait()
		text := f.stderr.String()
		says := func(what string) bool { return strings.Contains(text, what) }
		inRuntime := []string{"ThreadSanitizer failed to allocate", "address space collisions for -race mode", "SIGSEGV: segmentation violation\nPC="}
		if !slices.ContainsFunc(append(inRuntime, want), says) {
			t.Errorf("%s: %s", function, text)
		}
		const most = 256 << 10 // With what the process had at its start, and the race detector.
		if used, is := f.cmd.ProcessState.SysUsage().(*syscall.Rusage); is && used.Maxrss > most {
			t.Errorf("%s: %d KiB", function, used.Maxrss)
		}
	}
}

// A child ends with its parent, whatever it does.
func TestChildEndsWithItsParent(t *testing.T) {
	f := startFenced(t, raceMemory)
	must.Get(io.WriteString(f.in, "{\"function\":\"hang\"}\n{}\n")).In(t)
	f.in.Close()
	must.Succeed(t, f.cmd.Wait())
}
