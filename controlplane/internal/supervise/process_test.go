package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/controlplane/internal/proctest"
	"github.com/setpoint-dev/setpoint/controlplane/internal/supervise"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/process"
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
	}
}

// serve lives until it is ended. It waits on a timer: the runtime ends a program that waits for nothing.
func serve() {
	fmt.Println("serving")
	<-time.After(time.Hour)
}

func spec(dir, role string) supervise.Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return supervise.Spec{
		Name:       "child",
		Path:       self,
		Env:        []string{"SUPERVISE_TEST_ROLE=" + role},
		Dir:        dir,
		Log:        filepath.Join(dir, "child.log"),
		FirstDelay: time.Millisecond,
	}
}

func start(t *testing.T, spec supervise.Spec) *supervise.Process {
	t.Helper()
	reaper := must.Get(process.NewReaper()).In(t)
	t.Cleanup(reaper.Close)
	p := must.Get(supervise.Start(spec, reaper, slog.New(slog.DiscardHandler))).In(t)
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}

func TestKilledChildIsRestarted(t *testing.T) {
	p := start(t, spec(t.TempDir(), "server"))
	first, _ := p.State()
	must.Succeed(t, syscall.Kill(first, syscall.SIGKILL))
	proctest.Eventually(t, 10*time.Second, func() error {
		if pid, restarts := p.State(); pid == 0 || pid == first || restarts != 1 {
			return fmt.Errorf("pid %d after %d, %d restarts", pid, first, restarts)
		}
		return nil
	})
}

func TestFailingChildIsGivenUp(t *testing.T) {
	s := spec(t.TempDir(), "failing")
	p := start(t, s)
	<-p.Done()
	if _, restarts := p.State(); restarts != 5 {
		t.Errorf("%d restarts, want 5", restarts)
	}
	for _, want := range []string{"child keeps ending", "exited with code 3", s.Log, "  cannot find my shoes"} {
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
			pid, _ := p.State()
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
	s.FirstDelay = time.Hour
	p := start(t, s)
	proctest.Eventually(t, 10*time.Second, func() error {
		if pid, _ := p.State(); pid != 0 {
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
	s.Needs = func(ctx context.Context) error {
		select {
		case err := <-called:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p := start(t, s)
	pid, _ := p.State()
	must.Succeed(t, syscall.Kill(pid, syscall.SIGKILL))
	for range 2 {
		called <- errors.New("not yet")
		if _, restarts := p.State(); restarts != 0 {
			t.Error("restarted too early")
		}
	}
	called <- nil
	proctest.Eventually(t, 10*time.Second, func() error {
		if _, restarts := p.State(); restarts != 1 {
			return errors.New("not restarted")
		}
		return nil
	})
}

func TestUnknownProgram(t *testing.T) {
	s := spec(t.TempDir(), "")
	s.Path = filepath.Join(s.Dir, "nothing")
	if _, err := supervise.Start(s, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), s.Path) {
		t.Fatalf("error is %v", err)
	}
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
