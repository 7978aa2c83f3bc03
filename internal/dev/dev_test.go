package dev_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/setpoint-dev/setpoint/internal/dev"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// These tests run whole sessions with real files and processes. The cluster and
// the engine are played: no manifest is applied here. The scripts that run the
// full program do that, on a real control plane.

// fakeCluster plays a control plane that is there at once.
type fakeCluster struct {
	kubeconfig string
	done       chan struct{}
	err        error
	notReady   error
	stopped    bool
}

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
`

func (c *fakeCluster) Kubeconfig() string    { return c.kubeconfig }
func (c *fakeCluster) Address() string       { return "https://127.0.0.1:1" }
func (c *fakeCluster) Done() <-chan struct{} { return c.done }
func (c *fakeCluster) Err() error            { return c.err }

func (c *fakeCluster) AwaitReady(context.Context) error { return c.notReady }

func (c *fakeCluster) Components() []dev.Component {
	return []dev.Component{{Name: "etcd", Log: "/data/logs/etcd.log"}}
}

func (c *fakeCluster) Stop(context.Context) error {
	c.stopped = true
	return nil
}

// fakeManager plays what runs the controllers.
type fakeManager struct {
	options   manager.Options
	ready     chan struct{}
	restarted chan string
	down      chan string
	fail      error
}

func (e *fakeManager) Ready() <-chan struct{}    { return e.ready }
func (e *fakeManager) HookRestarted(addr string) { e.restarted <- addr }

func (e *fakeManager) HookDown(addr string, err error) { e.down <- addr + ": " + err.Error() }

func (e *fakeManager) Run(ctx context.Context) error {
	close(e.ready)
	if e.fail != nil {
		return e.fail
	}
	<-ctx.Done()
	return nil
}

// session is one call of dev.Loop.
type session struct {
	dir      string
	cluster  *fakeCluster
	manager  *fakeManager
	options  dev.Options
	signals  chan os.Signal
	terminal *fakeTerminal
}

// fakeTerminal collects what the user sees and lets a test wait for it.
type fakeTerminal struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (s *fakeTerminal) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.text.Write(data)
}

func (s *fakeTerminal) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *fakeTerminal) await(t *testing.T, want string) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		s.mu.Lock()
		text, changed := s.text.String(), s.changed
		s.mu.Unlock()
		if strings.Contains(text, want) {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%q was never written; there is:\n%s", want, text)
		}
	}
}

// newSession makes a project of the files in a txtar text.
func newSession(t *testing.T, files string) *session {
	t.Helper()
	dir := t.TempDir()
	must.Succeed(t, txtar.Write(txtar.Parse([]byte("-- kubeconfig --\n"+kubeconfig+files)), dir))
	s := &session{
		dir:      dir,
		cluster:  &fakeCluster{kubeconfig: filepath.Join(dir, "kubeconfig"), done: make(chan struct{})},
		manager:  &fakeManager{ready: make(chan struct{}), restarted: make(chan string, 10), down: make(chan string, 100)},
		signals:  make(chan os.Signal, 2),
		terminal: &fakeTerminal{changed: make(chan struct{})},
	}
	s.options = dev.Options{
		Paths: []string{filepath.Join(dir, "p")},
		Boot:  func(context.Context, dev.BootOptions) (dev.Cluster, error) { return s.cluster, nil },
		NewManager: func(o manager.Options) (dev.Manager, error) {
			s.manager.options = o
			return s.manager, nil
		},
		Program: "setpoint", Executable: "/bin/setpoint", Stdout: io.Discard, Stderr: io.Discard,
		Reporter: progress.New(progress.Options{Out: s.terminal}), Log: slog.New(slog.DiscardHandler),
		Signals: s.signals, Abort: func() { t.Error("aborted") },
	}
	return s
}

type outcome struct {
	code int
	err  error
}

func (s *session) start(t *testing.T) <-chan outcome {
	t.Helper()
	ended := make(chan outcome, 1)
	go func() {
		code, err := dev.Loop(t.Context(), s.options)
		ended <- outcome{code, err}
	}()
	return ended
}

// stop ends a session by a signal, which is no failure.
func (s *session) stop(t *testing.T, sig os.Signal, ended <-chan outcome) {
	t.Helper()
	s.signals <- sig
	if got := <-ended; got.code != 0 || got.err != nil {
		t.Errorf("%+v", got)
	}
}

// hook is a process with one file.
const hook = `
-- p/setpoint.yaml --
processes:
- command: [sh, hook.sh]
  name: worker
-- p/hook.sh --
echo "hook one"
exec sleep 1000
`

func TestCommandDecidesTheExitCode(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -TERM $$": 143} {
		s := newSession(t, hook)
		s.options.Command = []string{"sh", "-c", script}
		if got := <-s.start(t); got.code != want || got.err != nil {
			t.Errorf("%s: %+v", script, got)
		}
		if !s.cluster.stopped {
			t.Errorf("%s: the cluster was left running", script)
		}
	}
}

func TestCommandEnvironment(t *testing.T) {
	s := newSession(t, hook)
	var out bytes.Buffer
	s.options.Stdout = &out
	s.options.Command = []string{"sh", "-c", `echo "$KUBECONFIG $SETPOINT"`}
	if got := <-s.start(t); got.code != 0 || out.String() != s.cluster.kubeconfig+" /bin/setpoint\n" {
		t.Errorf("%+v: %s", got, &out)
	}
}

func TestCommandHookEnvironment(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "localhost:0")).In(t)
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	s := newSession(t, `
-- p/setpoint.yaml --
processes: [{command: [sh, -c, "sleep 1000; : {port}"], service: "hook.web:8080"}]
`)
	s.options.FreePort = func() (int, error) { return port, nil }
	var out bytes.Buffer
	s.options.Stdout = &out
	s.options.Command = []string{"sh", "-c", `echo "$SETPOINT_HOOKS"`}
	if got := <-s.start(t); got.code != 0 || out.String() != fmt.Sprintf("hook.web:8080=localhost:%d\n", port) {
		t.Errorf("%+v: %s", got, &out)
	}
}

func TestBadManifestIsReportedAndRetried(t *testing.T) {
	s := newSession(t, "-- p/setpoint.yaml --\napply: [a.yaml]\n-- p/a.yaml --\nkind: Pod\n")
	ended := s.start(t)
	s.terminal.await(t, "a.yaml: document 1 (line 1): apiVersion: required")
	s.terminal.await(t, "Ctrl-C stops everything")
	s.write(t, "p/a.yaml", "apiVersion: v1\n")
	s.terminal.await(t, "a.yaml: document 1 (line 1): kind: required")
	s.stop(t, syscall.SIGTERM, ended)
}

// write replaces a file at once: a process may be started at any moment, and must not read half of it.
func (s *session) write(t *testing.T, file, text string) {
	t.Helper()
	unfinished := filepath.Join(s.dir, filepath.Dir(file), ".unfinished")
	must.Succeed(t, os.WriteFile(unfinished, []byte(text), 0o600))
	must.Succeed(t, os.Rename(unfinished, filepath.Join(s.dir, file)))
}

// listen plays that a hook listens. Nothing else takes the port while it is closed.
func listen(t *testing.T) net.Listener {
	t.Helper()
	port := must.Get(process.FreePorts()()).In(t)
	return must.Get(net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))).In(t)
}

func TestChangedHookIsRestarted(t *testing.T) {
	listener := listen(t)
	defer listener.Close()
	s := newSession(t, strings.Replace(hook, "name: worker", "name: worker\n  env: {PORT: '{port}'}\n  service: hook.web", 1))
	s.options.FreePort = func() (int, error) { return listener.Addr().(*net.TCPAddr).Port, nil }
	ended := s.start(t)
	s.terminal.await(t, "worker | hook one\n")
	s.terminal.await(t, "service hook.web")
	for _, addr := range []string{"hook.web:80", "hook.web.svc:80", "hook.web.svc.cluster.local:443"} {
		conn, err := s.manager.options.Dial(t.Context(), "tcp", addr)
		if err != nil || conn.RemoteAddr().String() != listener.Addr().String() {
			t.Errorf("dial %s: %v", addr, err)
			continue
		}
		conn.Close()
	}
	s.write(t, "p/hook.sh", "echo hook two; exec sleep 1000")
	s.terminal.await(t, "worker | hook two\n")
	s.terminal.await(t, "hook.sh changed: restarted worker")
	for _, want := range []string{"hook.web", "hook.web.svc", "hook.web.svc.cluster.local"} {
		if got := <-s.manager.restarted; got != want {
			t.Errorf("the engine was told %q, not %q", got, want)
		}
	}
	s.write(t, "p/setpoint.yaml", "")
	s.terminal.await(t, "setpoint.yaml changed: restart setpoint dev to use it")
	s.stop(t, syscall.SIGINT, ended)
}

// Fault G7: the engine knows that a process has ended, and that it is back.
func TestManagerIsNotifiedOfDeadHook(t *testing.T) {
	listener := listen(t)
	address := listener.Addr().(*net.TCPAddr)
	s := newSession(t, strings.Replace(hook, "name: worker", "name: worker\n  env: {PORT: '{port}'}\n  service: hook.web", 1))
	s.options.FreePort = func() (int, error) { return address.Port, nil }
	ended := s.start(t)
	s.terminal.await(t, "Ctrl-C stops everything")

	listener.Close()
	s.write(t, "p/hook.sh", "exit 3")
	for _, want := range []string{"hook.web", "hook.web.svc", "hook.web.svc.cluster.local"} {
		want += ": process worker (service hook.web): exited with code 3"
		if got := <-s.manager.down; got != want {
			t.Errorf("the engine got %q, want %q", got, want)
		}
	}
	if len(s.manager.restarted) != 0 {
		t.Errorf("the engine got %s as restarted", <-s.manager.restarted)
	}
	again := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", address.String())).In(t)
	defer again.Close()
	s.write(t, "p/hook.sh", "exec sleep 1000")
	for _, want := range []string{"hook.web", "hook.web.svc", "hook.web.svc.cluster.local"} {
		if got := <-s.manager.restarted; got != want {
			t.Errorf("the engine got %q, want %q", got, want)
		}
	}
	s.stop(t, syscall.SIGINT, ended)
}

func TestDialBrokenHook(t *testing.T) {
	s := newSession(t, `
-- p/setpoint.yaml --
processes: [{command: [sh, -c, "exit 3; {port}"], name: broken, service: hook.web}]
`)
	ended := s.start(t)
	s.terminal.await(t, "process broken exited with code 3; restarting")
	s.terminal.await(t, "Ctrl-C stops everything")
	if conn, err := s.manager.options.Dial(t.Context(), "tcp", "other.invalid:80"); err == nil {
		conn.Close()
		t.Error("a host that does not exist was reached")
	} else if !strings.Contains(err.Error(), "setpoint.yaml has processes for the services hook.web") {
		t.Error(err)
	}
	s.signals <- syscall.SIGTERM
	<-ended
}

func TestSecondSignalAborts(t *testing.T) {
	s := newSession(t, "-- p/setpoint.yaml --\n")
	aborted := make(chan struct{})
	s.options.Abort = func() { close(aborted) }
	s.options.Boot = func(context.Context, dev.BootOptions) (dev.Cluster, error) {
		s.signals <- syscall.SIGINT
		s.signals <- syscall.SIGINT
		<-aborted
		return nil, errors.New("interrupted")
	}
	if got := <-s.start(t); got.code != 130 || got.err != nil {
		t.Errorf("%+v", got)
	}
}

func TestCtrlCBelongsToAnInteractiveCommand(t *testing.T) {
	s := newSession(t, "-- p/setpoint.yaml --\n")
	s.options.Interactive = true
	s.options.Command = []string{"sh", "-c", "echo go; read answer; exit 5"}
	read, write := io.Pipe()
	s.options.Stdin, s.options.Stdout = read, s.terminal
	ended := s.start(t)
	s.terminal.await(t, "go\n")
	s.signals <- syscall.SIGINT
	s.signals <- syscall.SIGINT
	fmt.Fprintln(write, "answer")
	write.Close()
	if got := <-ended; got.code != 5 || got.err != nil {
		t.Errorf("%+v", got)
	}
}

func TestClusterExitEndsSession(t *testing.T) {
	for _, command := range [][]string{nil, {"sleep", "1000"}} {
		s := newSession(t, hook)
		s.options.Command = command
		s.cluster.err = errors.New("etcd died; its log is /data/logs/etcd.log")
		ended := s.start(t)
		s.terminal.await(t, "hook one")
		close(s.cluster.done)
		if got := <-ended; got.code != 1 || !errors.Is(got.err, s.cluster.err) {
			t.Errorf("%+v", got)
		}
	}
}

func TestFailingSessions(t *testing.T) {
	const empty = "-- p/setpoint.yaml --\n"
	command := func(args ...string) func(*session) { return func(s *session) { s.options.Command = args } }
	boot := func(does func() error) func(*session) {
		return func(s *session) {
			s.options.Boot = func(context.Context, dev.BootOptions) (dev.Cluster, error) { return nil, does() }
		}
	}
	for name, c := range map[string]struct {
		files  string
		change func(*session)
		code   int
		want   []string
	}{
		"no such command": {hook, command("no-such-program-anywhere"), 127, []string{"no-such-program-anywhere"}},
		"a command needs its processes": {"-- p/setpoint.yaml --\nprocesses: [{command: [sh, -c, \"exit 3; {port}\"], name: broken, service: hook.web}]\n",
			command("true"), 1, []string{"process broken", "exited with code 3"}},
		"a command needs its manifests": {"-- p/setpoint.yaml --\napply: [gone.yaml]\n", command("true"), 1, []string{"gone.yaml"}},
		"a command does not wait longer": {"-- p/setpoint.yaml --\nprocesses: [{name: deaf, command: [sh, -c, \"sleep 1000; : {port}\"]}]\n", func(s *session) {
			s.options.Command, s.options.ReadyTimeout = []string{"true"}, 50*time.Millisecond
		}, 1, []string{"process deaf (sh -c sleep 1000;", "not ready after 50ms (--ready-timeout)"}},
		"the files come before the cluster": {"-- p/setpoint.yaml --\naply: []\n", func(s *session) {
			s.options.Paths = append(s.options.Paths, filepath.Join(s.dir, "nowhere"))
			boot(func() error { t.Error("booted"); return errors.New("no") })(s)
		}, 1, []string{`unknown field "aply"`, "nowhere"}},
		"no boot": {empty, boot(func() error { return errors.New("in use by process 7") }), 1, []string{"in use by process 7"}},
		"the cluster does not get ready": {empty, func(s *session) { s.cluster.notReady = errors.New("wait for nodes: deadline exceeded") }, 1,
			[]string{"boot the control plane", "wait for nodes: deadline exceeded"}},
		"the manager ends": {hook, func(s *session) { s.manager.fail = errors.New("no permission") }, 1, []string{"no permission"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t, c.files)
			c.change(s)
			got := <-s.start(t)
			lacks := func(want string) bool { return !strings.Contains(fmt.Sprint(got.err), want) }
			if got.code != c.code || slices.ContainsFunc(c.want, lacks) || s.cluster.notReady != nil && !s.cluster.stopped {
				t.Errorf("%+v, the cluster is stopped: %t", got, s.cluster.stopped)
			}
		})
	}
}
