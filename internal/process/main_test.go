package process_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// roles are what this test binary plays when it is started again.
var roles = map[string]func(){"server": serve, "parent": serveAndHang}

const roleVariable = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	if play, ok := roles[os.Getenv(roleVariable)]; ok {
		play()
		return
	}
	os.Exit(m.Run())
}

func role(name string) string { return roleVariable + "=" + name }

func self(t *testing.T) string {
	t.Helper()
	return must.Get(os.Executable()).In(t)
}

// serve listens at $PORT and is ready at its third response.
func serve() {
	var called atomic.Int32
	http.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if called.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	_ = http.ListenAndServe(net.JoinHostPort("127.0.0.1", os.Getenv("PORT")), nil)
}

// serveAndHang supervises a process until it is killed.
func serveAndHang() {
	reaper, err := process.NewReaper()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	process.New(process.Options{
		Command: []string{"sh", "-c", holdOpen}, Env: []string{"FIFO=" + os.Getenv("FIFO")},
		Output: discard{}, Reaper: reaper,
	}).Run(context.Background())
}

type discard struct{}

func (discard) Write(data []byte) (int, error) { return len(data), nil }
func (discard) Flush()                         {}

// holdOpen keeps $FIFO open for writing in a process and a child of it, which
// both ignore what asks them nicely to go.
const holdOpen = `trap '' TERM; exec 3>"$FIFO"; echo open >&3; sleep 1000 & wait`

// deathMarker is a FIFO that tells when the last process which holds it open is gone.
type deathMarker struct {
	path string
	file *os.File
}

func newDeathMarker(t *testing.T) *deathMarker {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	must.Succeed(t, syscall.Mkfifo(path, 0o600))
	return &deathMarker{path: path}
}

// awaitOpen waits until another process holds it open.
func (g *deathMarker) awaitOpen(t *testing.T) {
	t.Helper()
	file := must.Get(os.Open(g.path)).In(t) // Blocks until another process opens the other end.
	t.Cleanup(func() { file.Close() })
	g.file = file
	must.Get(file.Read(make([]byte, 5))).In(t)
}

// awaitAlone waits until no other process holds it open.
func (g *deathMarker) awaitAlone(t *testing.T) {
	t.Helper()
	_ = g.file.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := g.file.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Fatalf("a process is left: read %d bytes, %v", n, err)
	}
}

func TestKilledParentKillsChildren(t *testing.T) {
	marker := newDeathMarker(t)
	parent := exec.Command(self(t))
	parent.Env = append(os.Environ(), role("parent"), "FIFO="+marker.path)
	parent.Stderr = os.Stderr
	must.Succeed(t, parent.Start())
	marker.awaitOpen(t)
	must.Succeed(t, parent.Process.Kill())
	marker.awaitAlone(t)
	_ = parent.Wait()
}
