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
	do func(*keyboard, context.Context)
}

// keys are the keys in the order in which they are shown.
var keys = []key{
	{'o', "dashboard", "open the dashboard in the browser", (*keyboard).openPage},
	{'r', "reconcile", "reconcile all objects of all controllers", func(k *keyboard, ctx context.Context) { k.reconcile(ctx) }},
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

	// ready is set once what follows is, which keys need.
	ready atomic.Bool
	// dashboardURL is "" for no dashboard. The private folder is for the page that leads to it.
	dashboardURL, folder, processLogs, kubeconfig string
	// reconcile requests a reconcile of everything, and does not wait for it.
	reconcile func(context.Context)
	// shell runs a program that has the terminal.
	shell func(context.Context, string) error
}

// enable lets all keys work, since the session is ready.
func (k *keyboard) enable(s *session) {
	k.dashboardURL, k.folder, k.processLogs, k.kubeconfig = s.dashboardURL, s.inspectDir, s.ProcessLogs, s.cluster.Kubeconfig()
	out := s.Reporter.Writer("reconcile")
	k.reconcile = func(ctx context.Context) {
		s.background.Go(func() {
			if err := s.Reconcile(ctx, k.kubeconfig, out); err != nil && ctx.Err() == nil {
				s.Reporter.Problem(err)
			}
		})
	}
	k.shell = func(ctx context.Context, program string) error {
		_, err := s.foreground(ctx, []string{program}, s.environment())
		return err
	}
	k.ready.Store(true)
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
	i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
	switch {
	case name == 'q':
		k.quit()
	case name == '?':
		k.reporter.Line("%s", keysHelp())
	case i < 0:
		k.reporter.Line("no key %c; ? shows the keys", name)
	case !k.ready.Load():
		k.reporter.Line("not ready yet; q quits")
	default:
		keys[i].do(k, ctx)
	}
}

// openPage opens the dashboard in the browser by a private file: other users can see the arguments of a browser, and would
// learn the token in the URL.
func (k *keyboard) openPage(context.Context) {
	if k.dashboardURL == "" {
		k.reporter.Line("the session has no dashboard (--dashboard-address)")
		return
	}
	page := `<!doctype html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=` + k.dashboardURL + `">`
	browser := exec.Command(Browser(), pageFile(k.folder))
	browser.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is not for it, and it may run on.
	k.reporter.Line("opening %s", k.dashboardURL)
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

// toggleLogs hides the output of hooks, or shows it again.
func (k *keyboard) toggleLogs(context.Context) {
	hidden := !k.reporter.HooksHidden.Load()
	k.reporter.HooksHidden.Store(hidden)
	switch {
	case hidden:
		k.reporter.Line("the output of hooks is hidden; l shows it")
	case k.processLogs != "":
		k.reporter.Line("the output of hooks is shown; that of processes is in %s (--process-logs)", k.processLogs)
	default:
		k.reporter.Line("the output of hooks is shown; l hides it")
	}
}

// openShell runs a shell, which has the terminal to itself.
func (k *keyboard) openShell(ctx context.Context) {
	shell := cmp.Or(os.Getenv("SHELL"), "/bin/sh")
	k.reporter.Line("%s with KUBECONFIG=%s; exit or Ctrl-D returns", shell, k.kubeconfig)
	k.reporter.Pause()
	err := k.lend(func() error { return k.shell(ctx, shell) })
	k.reporter.Resume()
	if err != nil {
		k.reporter.Problem(err)
	}
}
