package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/controlplane/internal/lifeline"
	"github.com/setpoint-dev/setpoint/controlplane/internal/proctest"
	"github.com/setpoint-dev/setpoint/controlplane/internal/supervise"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// The test binary started again is the child; this says what it does.
const role = "SUPERVISE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "server":
		serve()
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		serve()
	case "failing":
		fmt.Println("cannot find my shoes")
		os.Exit(3)
	case "parent":
		parent()
	}
}

// serve lives until it is ended, or its parent is.
func serve() {
	lifeline.Watch(func() { os.Exit(1) })
	fmt.Println("serving")
	select {}
}

// parent starts a child, tells its pid and waits to be killed.
func parent() {
	line, err := lifeline.New()
	if err != nil {
		os.Exit(1)
	}
	dir := os.Getenv("SUPERVISE_TEST_DIR")
	child, err := supervise.Start(spec(dir, "deaf"), line, slog.New(slog.DiscardHandler))
	if err != nil {
		os.Exit(1)
	}
	fmt.Println(child.PID())
	select {}
}

func spec(dir, role string) supervise.Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return supervise.Spec{
		Name:   "child",
		Path:   self,
		Env:    []string{"SUPERVISE_TEST_ROLE=" + role},
		Dir:    dir,
		Log:    filepath.Join(dir, "child.log"),
		Policy: supervise.Policy{FirstDelay: time.Millisecond, MaxDelay: 4 * time.Millisecond, Tries: 4},
	}
}

func start(t *testing.T, spec supervise.Spec) *supervise.Process {
	t.Helper()
	line := must.Get(lifeline.New()).In(t)
	t.Cleanup(line.Close)
	p := must.Get(supervise.Start(spec, line, slog.New(slog.DiscardHandler))).In(t)
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}

func TestKilledChildIsRestarted(t *testing.T) {
	p := start(t, spec(t.TempDir(), "server"))
	first := p.PID()
	must.Succeed(t, syscall.Kill(first, syscall.SIGKILL))
	proctest.Eventually(t, 10*time.Second, func() error {
		if pid := p.PID(); pid == 0 || pid == first || p.Restarts() != 1 {
			return fmt.Errorf("pid %d after %d, %d restarts", pid, first, p.Restarts())
		}
		return nil
	})
}

func TestFailingChildIsGivenUp(t *testing.T) {
	s := spec(t.TempDir(), "failing")
	p := start(t, s)
	<-p.Done()
	var givenUp *supervise.GivenUpError
	if !errors.As(p.Err(), &givenUp) {
		t.Fatalf("error is %v", p.Err())
	}
	if p.Restarts() != 3 {
		t.Errorf("%d restarts, want 3", p.Restarts())
	}
	for _, want := range []string{"child keeps ending", "exit status 3", s.Log, "  cannot find my shoes"} {
		if !strings.Contains(p.Err().Error(), want) {
			t.Errorf("error lacks %q: %v", want, p.Err())
		}
	}
}

func TestStopEndsTheChild(t *testing.T) {
	for role, grace := range map[string]time.Duration{
		"server": time.Minute,            // obeys SIGTERM, so does not take a minute
		"deaf":   100 * time.Millisecond, // has to be killed
	} {
		t.Run(role, func(t *testing.T) {
			s := spec(t.TempDir(), role)
			s.Grace = grace
			p := start(t, s)
			pid := p.PID()
			waitForLine(t, s.Log, "serving")
			must.Succeed(t, p.Stop(t.Context()))
			if p.Err() != nil {
				t.Errorf("error after Stop: %v", p.Err())
			}
			if proctest.Alive(pid) {
				t.Errorf("pid %d still runs", pid)
			}
		})
	}
}

func TestStopDuringBackoff(t *testing.T) {
	s := spec(t.TempDir(), "failing")
	s.Policy = supervise.Policy{FirstDelay: time.Hour, MaxDelay: time.Hour}
	p := start(t, s)
	proctest.Eventually(t, 10*time.Second, func() error {
		if p.PID() != 0 {
			return errors.New("still runs")
		}
		return nil
	})
	if err := p.Stop(t.Context()); err != nil || p.Err() != nil {
		t.Fatalf("Stop: %v, Err: %v", err, p.Err())
	}
}

func TestRestartWaitsForNeeds(t *testing.T) {
	s := spec(t.TempDir(), "server")
	called := make(chan error)
	s.Needs = func(context.Context) error { return <-called }
	p := start(t, s)
	must.Succeed(t, syscall.Kill(p.PID(), syscall.SIGKILL))
	for range 2 {
		called <- errors.New("not yet")
		if p.Restarts() != 0 {
			t.Error("restarted too early")
		}
	}
	called <- nil
	proctest.Eventually(t, 10*time.Second, func() error {
		if p.Restarts() != 1 {
			return errors.New("not restarted")
		}
		return nil
	})
}

func TestUnknownProgram(t *testing.T) {
	line := must.Get(lifeline.New()).In(t)
	defer line.Close()
	s := spec(t.TempDir(), "")
	s.Path = filepath.Join(s.Dir, "nothing")
	if _, err := supervise.Start(s, line, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "start child") {
		t.Fatalf("error is %v", err)
	}
}

// No way for a parent to die leaves a child behind, not even this one.
func TestChildDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = []string{role + "=parent", "SUPERVISE_TEST_DIR=" + t.TempDir()}
	out := must.Get(parent.StdoutPipe()).In(t)
	must.Succeed(t, parent.Start())
	var text [32]byte
	n := must.Get(out.Read(text[:])).In(t)
	child := must.Get(strconv.Atoi(strings.TrimSpace(string(text[:n])))).In(t)
	must.Succeed(t, parent.Process.Kill())
	_ = parent.Wait()
	proctest.Eventually(t, 10*time.Second, func() error {
		if proctest.Alive(child) {
			return fmt.Errorf("pid %d still runs", child)
		}
		return nil
	})
}

func waitForLine(t *testing.T, file, line string) {
	t.Helper()
	proctest.Eventually(t, 10*time.Second, func() error {
		text, err := os.ReadFile(file)
		if err == nil && !strings.Contains(string(text), line) {
			err = fmt.Errorf("%s lacks %q", file, line)
		}
		return err
	})
}
