package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// keyboard is a terminal with a `setpoint dev` in it.
type keyboard struct {
	t        *testing.T
	user     *os.File
	tty      *os.File
	cmd      *exec.Cmd
	exited   chan error
	settings unix.Termios

	mu   sync.Mutex
	seen string
}

// newKeyboard starts `setpoint dev` in a terminal of 60 columns.
func newKeyboard(t *testing.T, dir string, env []string, args ...string) *keyboard {
	t.Helper()
	k := &keyboard{t: t, exited: make(chan error, 1)}
	k.user = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)).In(t)
	fd := int(k.user.Fd())
	number := must.Get(unix.IoctlGetInt(fd, unix.TIOCGPTN)).In(t)
	must.Succeed(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	must.Succeed(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 60}))
	k.tty = must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)).In(t)
	k.settings = k.now()
	k.cmd = exec.CommandContext(t.Context(), os.Getenv("SETPOINT"), append([]string{"dev"}, args...)...)
	k.cmd.Dir, k.cmd.Stdin, k.cmd.Stdout, k.cmd.Stderr = dir, k.tty, k.tty, k.tty
	k.cmd.Env = append(os.Environ(), append([]string{"KUBECONFIG=", "SETPOINT_INSPECT_DIR=", "SETPOINT_HOOKS=", "CI=", "TERM=xterm", "NO_COLOR=1"},
		env...)...)
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.Succeed(t, k.cmd.Start())
	go k.look()
	go func() { k.exited <- k.cmd.Wait() }()
	t.Cleanup(func() {
		_ = k.user.Close()
		_ = k.tty.Close()
	})
	return k
}

// look reads what is shown.
func (k *keyboard) look() {
	part := make([]byte, 4096)
	for {
		n, err := k.user.Read(part)
		if err != nil {
			return
		}
		k.mu.Lock()
		k.seen += string(part[:n])
		k.mu.Unlock()
	}
}

func (k *keyboard) now() unix.Termios {
	return *must.Get(unix.IoctlGetTermios(int(k.tty.Fd()), unix.TCGETS)).In(k.t)
}

func (k *keyboard) press(keys string) {
	k.t.Helper()
	must.Get(k.user.WriteString(keys)).In(k.t)
}

// until waits for something that the session does.
func (k *keyboard) until(check func() error) {
	k.t.Helper()
	end := time.Now().Add(3 * time.Minute)
	for err := check(); err != nil; err = check() {
		if time.Now().After(end) {
			k.t.Fatalf("%v; shown is:\n%s", err, k.shown())
		}
		<-time.After(20 * time.Millisecond)
	}
}

// shown is what was shown and not awaited.
func (k *keyboard) shown() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen
}

// await waits for a text after what was awaited before.
func (k *keyboard) await(pattern string) {
	k.t.Helper()
	wanted := regexp.MustCompile(pattern)
	k.until(func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		at := wanted.FindStringIndex(k.seen)
		if at == nil {
			return fmt.Errorf("no %q", pattern)
		}
		k.seen = k.seen[at[1]:]
		return nil
	})
}

// awaitMode waits until the terminal passes on keys at once, or is as it was.
func (k *keyboard) awaitMode(keys bool) {
	k.t.Helper()
	k.until(func() error {
		now := k.now()
		if keys == (now == k.settings) || keys && now.Lflag&(unix.ICANON|unix.ECHO) != 0 {
			return fmt.Errorf("the terminal has the flags %#x", now.Lflag)
		}
		return nil
	})
}

// awaitEnd waits for the exit code, and that the terminal is as it was.
func (k *keyboard) awaitEnd(code int) {
	k.t.Helper()
	err := <-k.exited
	got := k.cmd.ProcessState.ExitCode()
	if got != code {
		k.t.Errorf("exit code %d (%v), want %d; shown is:\n%s", got, err, code, k.seen)
	}
	if now := k.now(); now != k.settings {
		k.t.Errorf("after exit code %d the terminal has the flags %#x, not %#x", got, now.Lflag, k.settings.Lflag)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must.Succeed(t, os.WriteFile(at("browser"), []byte("#!/bin/sh\ncat \"$1\" >"+at("page")+"\n"), 0o755))
	start := exec.CommandContext(t.Context(), os.Getenv("SETPOINT"), "init", "web")
	start.Dir = dir
	must.Get(start.CombinedOutput()).In(t)
	k := newKeyboard(t, dir, []string{"BROWSER=" + at("browser"), "SHELL=/bin/sh", "XDG_CACHE_HOME=" + at("cache"), "PS1=shell> ", "ENV="}, "web")
	k.awaitMode(true)
	k.press("r")
	k.await(`not ready yet; q quits\r\n`)
	k.await(`Ready after`)
	k.await(`\r\no dashboard  r reconcile  l logs  k shell  \? help  q quit\r\n`)
	k.press("?")
	k.await(`  r  reconcile all objects of all controllers\r\n`)
	k.press("x\x1b[A")
	k.await(`no key x; \? shows the keys`)
	k.until(func() error { // The controller may not run yet.
		k.press("r")
		if !strings.Contains(k.shown(), "reconcile | compositecontroller.setpoint.dev/web: reconcile of all objects requested") {
			return errors.New("no reconcile")
		}
		return nil
	})
	k.press("l")
	k.await(`the output of hooks is hidden; l shows it`)
	k.press("l")
	k.await(`the output of hooks is shown; l hides it`)

	k.press("o")
	k.await(`opening http://`)
	k.until(func() error { return contains(at("page"), "url=http://127.0.0.1:") })

	k.press("k")
	k.await(`(?s)/bin/sh with KUBECONFIG=\S+; exit or Ctrl-D returns\r\n.*shell> `) // Else the prompt may follow the keys.
	k.awaitMode(false)
	k.press("echo \"[$KUBECONFIG]\"\n")
	k.await(`\r\n\[/\S+\]\r\n`)
	k.await(`shell> `)
	k.press("\x03")
	k.await(`shell> `) // Ctrl-C drops what was typed before.
	k.press("exit\n")
	k.awaitMode(true)

	k.press("\x1a")
	k.until(func() error {
		state := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", k.cmd.Process.Pid))).In(t))
		if !strings.Contains(state, ") T ") {
			return errors.New("it is not stopped by Ctrl-Z")
		}
		return nil
	})
	k.awaitMode(false)
	must.Succeed(t, syscall.Kill(-k.cmd.Process.Pid, syscall.SIGCONT)) // The whole group, as a shell does: a child may be stopped, too.
	k.awaitMode(true)
	k.press("q")
	k.awaitEnd(0)
}

// The terminal is as it was however the session ends.
func TestKeysGiveTheTerminalBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, keys string
		signal     syscall.Signal
		code       int
	}{
		{"q", "q", 0, 130}, {"Ctrl-C", "\x03", 0, 130}, {`Ctrl-\`, "\x1c", 0, 2}, {"SIGTERM", "", syscall.SIGTERM, 143},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			k := newKeyboard(t, t.TempDir(), []string{"XDG_CACHE_HOME=" + t.TempDir()})
			k.awaitMode(true)
			k.press(test.keys)
			if test.signal != 0 {
				must.Succeed(t, k.cmd.Process.Signal(test.signal))
			}
			k.awaitEnd(test.code)
		})
	}
	k := newKeyboard(t, t.TempDir(), []string{"CI=true"}, "--data-dir", "/dev/null/no")
	err := <-k.exited
	if now := k.now(); now != k.settings {
		t.Errorf("in CI keys are read (%v)", err)
	}
}
