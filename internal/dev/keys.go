package dev

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// key is a key of the keyboard and what it does.
type key struct {
	name byte
	// word is for the line of all keys, what for the help.
	word, what string
	// do is nil for keys that also work before the session is ready.
	do func(*keyboard, context.Context, *readySession)
}

// keys are the keys in the order in which they are shown.
var keys = []key{
	{'o', "dashboard", "open the dashboard in the browser", (*keyboard).openPage},
	{'r', "reconcile", "reconcile all objects of all controllers", (*keyboard).reconcile},
	{'l', "logs", "hide or show the output of hooks", (*keyboard).toggleLogs},
	{'k', "shell", "open a shell for this cluster", (*keyboard).openShell},
	{'?', "help", "show the keys", nil},
	{'q', "quit", "stop everything, as Ctrl-C does", nil},
}

// keysLine names the keys in one line.
func keysLine() string {
	return strings.Join(lists.Map(keys, func(k key) string { return string(k.name) + " " + k.word }), "  ")
}

// keysHelp says what the keys do.
func keysHelp() string {
	return strings.Join(lists.Map(keys, func(k key) string { return fmt.Sprintf("  %c  %s", k.name, k.what) }), "\n")
}

// keyboard does what the keys of a terminal say.
type keyboard struct {
	*terminal
	reporter *progress.Reporter
	quit     func()

	// ready is nil until the session is.
	ready atomic.Pointer[readySession]
}

// readySession is what keys need of a session.
type readySession struct {
	// dashboardURL is "" for no dashboard. The private folder is for the page that leads to it.
	dashboardURL, folder, processLogs, kubeconfig string
	// reconcile requests a reconcile of everything, and does not wait for it.
	reconcile func(context.Context)
	// shell runs a program that has the terminal.
	shell func(context.Context, string) error
}

// run does what the keys say until the session ends or the terminal is gone.
func (k *keyboard) run(ctx context.Context) {
	defer k.close() // Also in a panic.
	for {
		sent, err := k.read()
		for _, name := range pressed(sent) {
			if ctx.Err() == nil {
				k.press(ctx, name)
			}
		}
		if err != nil || ctx.Err() != nil {
			return
		}
	}
}

// pressed returns the keys in what a terminal sends. An escape sequence, such as of an arrow, has none, nor has the rest.
func pressed(sent []byte) []byte {
	sent, _, _ = bytes.Cut(sent, []byte{'\x1b'})
	return lists.Filter(sent, func(b byte) bool { return b > ' ' && b < '\x7f' })
}

// press does what a key says.
func (k *keyboard) press(ctx context.Context, name byte) {
	ready := k.ready.Load()
	i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
	switch {
	case name == 'q':
		k.quit()
	case name == '?':
		k.reporter.Line("%s", keysHelp())
	case i < 0:
		k.reporter.Line("no key %c; ? shows the keys", name)
	case ready == nil:
		k.reporter.Line("not ready yet; q quits")
	default:
		keys[i].do(k, ctx, ready)
	}
}

// openPage opens the dashboard in the browser by a private file: other users can see the arguments of a browser, and would
// learn the token in the URL.
func (k *keyboard) openPage(_ context.Context, s *readySession) {
	if s.dashboardURL == "" {
		k.reporter.Line("the session has no dashboard (--dashboard-address)")
		return
	}
	page := `<!doctype html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=` + s.dashboardURL + `">`
	browser := exec.Command(Browser(), pageFile(s.folder))
	browser.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is not for it, and it may run on.
	k.reporter.Line("opening %s", s.dashboardURL)
	err := os.WriteFile(browser.Args[1], []byte(page), 0o600) // Now, since the session removes it at its end.
	go func() {
		if err == nil {
			err = browser.Run()
		}
		if err != nil {
			k.reporter.Warning("no browser opened it: %v", err)
		}
	}()
}

// Browser is the program that opens the dashboard.
func Browser() string {
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	return cmp.Or(os.Getenv("BROWSER"), opener)
}

// pageFile is the file in a folder that leads to the dashboard.
func pageFile(folder string) string {
	return filepath.Join(folder, fmt.Sprintf("dashboard-%d.html", os.Getpid()))
}

func (*keyboard) reconcile(ctx context.Context, s *readySession) { s.reconcile(ctx) }

// toggleLogs hides the output of hooks, or shows it again.
func (k *keyboard) toggleLogs(_ context.Context, s *readySession) {
	hidden := !k.reporter.HooksHidden.Load()
	k.reporter.HooksHidden.Store(hidden)
	switch {
	case hidden:
		k.reporter.Line("the output of hooks is hidden; l shows it")
	case s.processLogs != "":
		k.reporter.Line("the output of hooks is shown; that of processes is in %s (--process-logs)", s.processLogs)
	default:
		k.reporter.Line("the output of hooks is shown; l hides it")
	}
}

// openShell runs a shell, which has the terminal to itself.
func (k *keyboard) openShell(ctx context.Context, s *readySession) {
	shell := cmp.Or(os.Getenv("SHELL"), "/bin/sh")
	k.reporter.Line("%s with KUBECONFIG=%s; exit or Ctrl-D returns", shell, s.kubeconfig)
	k.reporter.Pause()
	err := k.lend(func() error { return s.shell(ctx, shell) })
	k.reporter.Resume()
	if err != nil {
		k.reporter.Problem(err)
	}
}
