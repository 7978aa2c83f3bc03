package dev

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// openPage opens the dashboard in the browser by a private file: other users can see the arguments of a browser, and would
// learn the token in the URL.
func (s *session) openPage(context.Context) {
	if s.dashboardURL == "" {
		s.Reporter.Line("the session has no dashboard (--dashboard-address)")
		return
	}
	page := `<!doctype html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=` + s.dashboardURL + `">`
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	s.Reporter.Line("opening %s", s.dashboardURL)
	browser := exec.Command(cmp.Or(os.Getenv("BROWSER"), opener), s.pageFile())
	browser.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is not for it, and it may run on.
	go func() {
		err := os.WriteFile(s.pageFile(), []byte(page), 0o600)
		if err == nil {
			err = browser.Run()
		}
		if err != nil {
			s.Reporter.Warning("no browser opened it: %v", err)
		}
	}()
}

// pageFile is the file that leads to the dashboard.
func (s *session) pageFile() string {
	return filepath.Join(s.inspectDir, fmt.Sprintf("dashboard-%d.html", os.Getpid()))
}

// reconcileAll requests a reconcile of everything.
func (s *session) reconcileAll(ctx context.Context) {
	if err := s.Reconcile(ctx, s.cluster.Kubeconfig(), s.reconcileOut); err != nil && ctx.Err() == nil {
		s.Reporter.Problem(err)
	}
}

// toggleLogs hides the output of hooks, or shows it again.
func (s *session) toggleLogs(context.Context) {
	hidden := !s.Reporter.HooksHidden.Load()
	s.Reporter.HooksHidden.Store(hidden)
	switch {
	case hidden:
		s.Reporter.Line("the output of hooks is hidden; l shows it")
	case s.ProcessLogs != "":
		s.Reporter.Line("the output of hooks is shown; that of processes is in %s (--process-logs)", s.ProcessLogs)
	default:
		s.Reporter.Line("the output of hooks is shown; l hides it")
	}
}

// openShell runs a shell, which has the terminal to itself.
func (s *session) openShell(ctx context.Context) {
	shell := cmp.Or(os.Getenv("SHELL"), "/bin/sh")
	s.Reporter.Line("%s with KUBECONFIG=%s; exit or Ctrl-D returns", shell, s.cluster.Kubeconfig())
	s.Reporter.Pause()
	s.commandOwnsTerminal.Store(true)
	err := s.terminal.lend(func() error {
		_, err := process.Command{
			Args: []string{shell}, Env: s.environment(), Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr,
			Reaper: s.reaper, Interactive: true, Grace: processGrace,
		}.Run(ctx)
		return err
	})
	s.commandOwnsTerminal.Store(false)
	s.Reporter.Resume()
	if err != nil {
		s.Reporter.Problem(err)
	}
}
