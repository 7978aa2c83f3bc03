package child_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/process"
)

const roleVariable = "CHILD_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		serve()
		return
	}
	os.Exit(m.Run())
}

// serve does what each line says, and responds with its number and the process ID.
func serve() {
	lines := bufio.NewReader(os.Stdin)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		obey(verb, rest)
		fmt.Println(n, os.Getpid(), len(rest))
	}
}

func obey(verb, rest string) {
	switch verb {
	case "exit":
		fmt.Fprintln(os.Stderr, "about to exit")
		fmt.Fprint(os.Stderr, "no end of line")
		os.Exit(3)
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		hang()
	case "hang":
		signal.Ignore(syscall.SIGTERM)
		hang()
	case "flood":
		block := bytes.Repeat([]byte("x"), 1<<20)
		for {
			_, _ = os.Stdout.Write(block)
		}
	case "echo":
		fmt.Print(strings.Repeat(rest, 10)) // More than a pipe holds, before the next line is read.
	case "log":
		fmt.Fprintln(os.Stderr, rest)
		fmt.Fprintln(os.Stderr, "then", strings.Repeat("x", 10_000))
	case "spam":
		for range 10_000 {
			fmt.Fprintln(os.Stderr, "spam")
		}
	case "pour":
		for block := bytes.Repeat([]byte("no end of lines\n"), 1<<12); ; {
			_, _ = os.Stderr.Write(block)
		}
	case "twice":
		fmt.Println("first")
	case "late":
		time.AfterFunc(time.Millisecond, func() { fmt.Println("late") })
	case "fork":
		// It leaves the group and keeps the streams.
		fork(rest)
		hang()
	}
}

func hang() { <-time.After(time.Hour) }

// fork starts a program in a session of its own, with the streams of this one.
func fork(pidFile string) {
	null, _ := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	attr := &os.ProcAttr{Files: []*os.File{null, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true}}
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, attr)
	if err == nil {
		err = os.WriteFile(pidFile, fmt.Append(nil, p.Pid), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func newPool(t testing.TB, change func(*child.Config)) *child.Pool {
	t.Helper()
	c := child.Config{Controller: "test", Command: process.Command{
		Args: []string{self(t)}, Env: []string{roleVariable + "=child", "GORACE=atexit_sleep_ms=0"}, OnlyEnv: true,
	}}
	if change != nil {
		change(&c)
	}
	if c.Limiter == nil {
		c.Limiter = child.NewLimiter(0)
	}
	p := child.NewPool(c)
	t.Cleanup(p.Close)
	return p
}

func self(t testing.TB) string {
	t.Helper()
	return must.Get(os.Executable()).In(t)
}
