package process_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/process"
)

func newReaper(t *testing.T) *process.Reaper {
	t.Helper()
	reaper := must.Get(process.NewReaper()).In(t)
	t.Cleanup(reaper.Close)
	return reaper
}

func TestCommandExitCodes(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	must.Succeed(t, os.WriteFile(script, nil, 0o600))
	for _, c := range []struct {
		name string
		args []string
		code int
		err  string
	}{
		{"good", sh("exit 0"), 0, ""},
		{"bad", sh("exit 7"), 7, ""},
		{"signal", sh("kill -TERM $$"), 128 + 15, ""},
		{"missing", []string{"no-such-program-anywhere"}, 127, "run no-such-program-anywhere"},
		{"missing file", []string{"/no/where"}, 127, "run /no/where"},
		{"not executable", []string{script}, 126, "permission denied"},
	} {
		for _, command := range []process.Command{
			{Args: c.args, Reaper: newReaper(t)},
			{Args: c.args, Reaper: newReaper(t), Interactive: true},
			{Args: c.args},
		} {
			code, err := command.Run(t.Context())
			if code != c.code || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: code %d, error %v", c.name, code, err)
			}
		}
	}
}

func TestCommandStreams(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code, err := process.Command{
		Args: sh(`read line; echo "$line $WHO"; echo problem >&2`), Env: []string{"WHO=there"},
		Stdin: strings.NewReader("hello\n"), Stdout: &stdout, Stderr: &stderr, Reaper: newReaper(t),
	}.Run(t.Context())
	if code != 0 || err != nil || stdout.String() != "hello there\n" || stderr.String() != "problem\n" {
		t.Errorf("code %d, %v, stdout %q, stderr %q", code, err, &stdout, &stderr)
	}
}

// slowWriter takes longer for its first write than children may write after their parent has exited.
type slowWriter struct {
	size int
	late sync.Once
}

func (w *slowWriter) Write(data []byte) (int, error) {
	w.late.Do(func() { <-time.After(600 * time.Millisecond) })
	w.size += len(data)
	return len(data), nil
}

// All that a program has written arrives, however late it is read.
func TestLateOutputIsKept(t *testing.T) {
	const size = 60_000 // More than one read takes, and less than a pipe holds.
	var both, stdout, stderr slowWriter
	for _, command := range []process.Command{
		{Args: sh("head -c 60000 /dev/zero"), Stdout: &both, Stderr: &both},
		{Args: sh("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2"), Stdout: &stdout, Stderr: &stderr},
	} {
		command.Reaper = newReaper(t)
		if code, err := command.Run(t.Context()); code != 0 || err != nil {
			t.Errorf("code %d, %v", code, err)
		}
	}
	if both.size != size || stdout.size != size || stderr.size != size {
		t.Errorf("%d bytes for both, %d and %d bytes arrived", both.size, stdout.size, stderr.size)
	}
}

// cancelOn cancels when text is written to it.
type cancelOn struct {
	cancel context.CancelCauseFunc
	cause  error
}

func (c cancelOn) Write(data []byte) (int, error) {
	c.cancel(c.cause)
	return len(data), nil
}

func TestCommandGetsTheSignal(t *testing.T) {
	for _, c := range []struct {
		name, script string
		cause        error
		code         int
	}{
		{"interrupt", `trap 'exit 5' INT; echo go; sleep 1000 & wait`, process.StopSignal(syscall.SIGINT), 5},
		{"other cause", `trap 'exit 6' TERM; echo go; sleep 1000 & wait`, context.Canceled, 6},
		// Not SIGHUP, which a process under nohup passes on as ignored.
		{"untouched", `echo go; exec sleep 1000`, process.StopSignal(syscall.SIGUSR1), 128 + int(syscall.SIGUSR1)},
		{"stubborn", `trap '' TERM; echo go; sleep 1000`, process.StopSignal(syscall.SIGTERM), 128 + 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			code, err := process.Command{
				Args: sh(c.script), Stdout: cancelOn{cancel, c.cause}, Reaper: newReaper(t), Grace: 200 * time.Millisecond,
			}.Run(ctx)
			if code != c.code || err != nil {
				t.Errorf("code %d, want %d; error %v", code, c.code, err)
			}
		})
	}
}

func TestCommandKillsItsGroup(t *testing.T) {
	marker := newDeathMarker(t)
	reaper := newReaper(t)
	ended := make(chan int, 1)
	go func() {
		code, _ := process.Command{
			Args: sh(`exec 3>"$FIFO"; echo open >&3; sleep 1000 & exit 4`), Env: []string{"FIFO=" + marker.path}, Reaper: reaper,
		}.Run(t.Context())
		ended <- code
	}()
	marker.awaitOpen(t)
	if code := <-ended; code != 4 {
		t.Errorf("code %d", code)
	}
	marker.awaitAlone(t)
}
