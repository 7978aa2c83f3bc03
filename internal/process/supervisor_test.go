package process_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// output collects what a process writes.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(data)
}

func (o *output) Flush() { _, _ = o.Write([]byte("(end)")) }

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.String()
}

// supervised is a process under test and what was heard of it.
type supervised struct {
	*process.Supervisor
	output *output
	events chan process.Event
	stop   func()
}

// supervise runs a process; when the test is over nothing of it is left.
func supervise(t *testing.T, o process.Options) *supervised {
	t.Helper()
	reaper := must.Get(process.NewReaper()).In(t)
	s := &supervised{output: &output{}, events: make(chan process.Event, 100)}
	o.Reaper, o.Output, o.Notify = reaper, s.output, func(e process.Event) { s.events <- e }
	s.Supervisor = process.New(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		s.Run(ctx)
		close(ended)
	}()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		reaper.Close()
	})
	t.Cleanup(s.stop)
	return s
}

func (s *supervised) next(t *testing.T) process.Event {
	t.Helper()
	select {
	case e := <-s.events:
		return e
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing happened; output so far: %s", s.output.text())
		return process.Event{}
	}
}

func sh(script string) []string { return []string{"sh", "-c", script} }

func TestExitedProcessIsRestartedWithBackoff(t *testing.T) {
	s := supervise(t, process.Options{
		Command: sh("echo out; echo err >&2; printf rest; exit 3"),
		Port:    1, // No server listens there.
		Backoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond,
	})
	for _, want := range []time.Duration{1, 2, 4, 4} {
		e := s.next(t)
		if e.Died == nil || e.Died.Error() != "exited with code 3" || e.Retry != want*time.Millisecond {
			t.Fatalf("got %+v, want a retry after %d ms", e, want)
		}
	}
	if got := s.output.text(); !strings.HasPrefix(got, "out\nerr\nrest(end)out\n") {
		t.Errorf("output: %q", got)
	}
}

func TestExitReasons(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":         "exited with code 0, but it should keep running",
		"kill -KILL $$":  "killed by signal 9 (killed)",
		"exec /no/where": "exited with code 127",
	} {
		s := supervise(t, process.Options{Command: sh(script), Port: 1, Backoff: time.Hour})
		if e := s.next(t); e.Died == nil || e.Died.Error() != want {
			t.Errorf("%s: got %v, want %s", script, e.Died, want)
		}
	}
}

// A Node.js that is too old for TypeScript is named with what it takes.
func TestOldNode(t *testing.T) {
	node := filepath.Join(t.TempDir(), "node")
	must.Succeed(t, os.WriteFile(node, []byte("#!/bin/sh\ntest \"$1\" = --version && echo v20.20.2 && exit 0\nexit 9\n"), 0o700))
	want := "exited with code 9: TypeScript needs Node.js 22.6 or newer, and " + node + " is v20.20.2"
	s := supervise(t, process.Options{Command: []string{node, "--experimental-strip-types", "server.ts"}, Port: 1, Backoff: time.Hour})
	if e := s.next(t); e.Died == nil || e.Died.Error() != want {
		t.Errorf("got %v, want %s", e.Died, want)
	}
	s = supervise(t, process.Options{Command: []string{node, "server.js"}, Port: 1, Backoff: time.Hour})
	if e := s.next(t); e.Died == nil || e.Died.Error() != "exited with code 9" {
		t.Errorf("got %v", e.Died)
	}
}

func TestProgramNotFound(t *testing.T) {
	s := supervise(t, process.Options{Command: []string{"no-such-program-anywhere"}, Backoff: time.Hour})
	e := s.next(t)
	if e.Died == nil || !strings.Contains(e.Died.Error(), "no-such-program-anywhere") {
		t.Errorf("got %v", e.Died)
	}
	if err := s.WaitReady(t.Context()); !errors.Is(err, e.Died) {
		t.Errorf("a caller gets %v", err)
	}
}

func TestRestart(t *testing.T) {
	s := supervise(t, process.Options{Command: sh("echo up; exec sleep 1000"), Env: []string{"A=b"}})
	if e := s.next(t); !e.Ready || e.Cause != "" {
		t.Fatalf("first: %+v", e)
	}
	s.Restart("sync.py changed")
	if e := s.next(t); !e.Ready || e.Cause != "sync.py changed" {
		t.Fatalf("second: %+v", e)
	}
	must.Succeed(t, s.WaitReady(t.Context()))
}

func TestRestartSkipsBackoff(t *testing.T) {
	dir := t.TempDir()
	s := supervise(t, process.Options{
		Command: sh(`[ -e fixed ] || { touch fixed; exit 1; }; exec sleep 1000`), Dir: dir, Backoff: time.Hour,
	})
	for e := s.next(t); e.Died == nil; e = s.next(t) { // It may count as ready before it dies.
	}
	s.Restart("file changed")
	if e := s.next(t); !e.Ready || e.Cause != "file changed" {
		t.Errorf("got %+v", e)
	}
}

func TestReadyWhenListening(t *testing.T) {
	port := must.Get(process.FreePorts()()).In(t)
	s := supervise(t, process.Options{
		Command: []string{self(t)}, Env: []string{role("server"), "PORT=" + strconv.Itoa(port)},
		Port: port, ReadyPath: "/ready",
	})
	must.Succeed(t, s.WaitReady(t.Context()))
	if e := s.next(t); !e.Ready {
		t.Errorf("got %+v", e)
	}
}

func TestSlowProcessIsReported(t *testing.T) {
	s := supervise(t, process.Options{Command: sh("exec sleep 1000"), Port: 1, SlowAfter: time.Millisecond})
	if e := s.next(t); !e.Slow {
		t.Errorf("got %+v", e)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.WaitReady(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller gets %v", err)
	}
}

func TestStopKillsWholeGroup(t *testing.T) {
	marker := newDeathMarker(t)
	s := supervise(t, process.Options{
		Command: sh(holdOpen), Env: []string{"FIFO=" + marker.path}, Grace: 10 * time.Millisecond,
	})
	marker.awaitOpen(t)
	s.stop()
	marker.awaitAlone(t)
}

func TestChildrenDieWithTheirLeader(t *testing.T) {
	marker := newDeathMarker(t)
	supervise(t, process.Options{
		Command: sh(`exec 3>"$FIFO"; echo open >&3; sleep 1000 & exit 1`), Env: []string{"FIFO=" + marker.path},
		Backoff: time.Hour,
	})
	marker.awaitOpen(t)
	marker.awaitAlone(t)
}

// After a hopeless exit a process waits for a change.
func TestHopelessExit(t *testing.T) {
	s := supervise(t, process.Options{Command: sh("exit 3"), Hopeless: func(code int) bool { return code == 3 }})
	for range 3 {
		e := s.next(t)
		for e.Died == nil {
			e = s.next(t)
		}
		if e.Retry != 0 || e.Died.Error() != "exited with code 3" {
			t.Errorf("got %+v", e)
		}
		s.Restart("file.py changed")
	}
}
