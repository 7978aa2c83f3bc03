package dev

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
)

// compilePhaseDelay is how long compiling runs before it is shown. Without a terminal, a line
// reports progress every compileInterval.
const (
	compilePhaseDelay = time.Second
	compileInterval   = 30 * time.Second
)

// compileAll compiles all programs before the cluster boots, because compiling uses all
// CPUs. No timeout includes it. A program that does not compile is compiled again when a
// file changes, unless a command needs it.
func (s *session) compileAll(ctx context.Context) error {
	var problems []error
	for _, l := range s.locals {
		if len(l.Build) == 0 {
			continue
		}
		l.compiled = s.compile(ctx, l, 0)
		if problems = append(problems, l.compiled); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if len(s.Command) == 0 {
		return nil
	}
	return errors.Join(problems...)
}

// prepare runs before each start of a process. The first one was compiled before.
func (s *session) prepare(ctx context.Context, l *localProcess) error {
	if !l.started || len(l.Build) == 0 {
		l.started = true
		return l.compiled
	}
	return s.compile(ctx, l, compilePhaseDelay)
}

// compile compiles a program, which is shown as a phase after some time. The compiler's messages are printed as they arrive;
// the error only reports the failure.
func (s *session) compile(ctx context.Context, l *localProcess, shownAfter time.Duration) error {
	output := newCompileOutput(s.Reporter.Writer(l.Name))
	ended := make(chan error, 1)
	go func() {
		err := l.Compile(ctx, s.reaper, output)
		output.Flush()
		ended <- err
	}()
	began, shown := time.Now(), time.After(shownAfter)
	ticker := time.NewTicker(compileInterval)
	defer ticker.Stop()
	var phase *progress.Phase
	for {
		select {
		case err := <-ended:
			if phase == nil && err == nil {
				return nil
			}
			if phase == nil {
				phase = s.Reporter.Phase("compile " + l.Name)
			}
			phase.End(err, output.progress())
			return err
		case <-shown:
			phase = s.Reporter.Phase("compile " + l.Name)
		case <-ticker.C:
			s.Reporter.Still("compiling %s: %s, %s", l.Name, progress.FormatDuration(time.Since(began)), output.progress())
		}
	}
}

// compileOutput counts the packages that the go command reports, and passes other lines on.
type compileOutput struct {
	*progress.Writer

	packages atomic.Int32
}

// compiledPackage matches a line in which `go build -v` reports a package.
var compiledPackage = regexp.MustCompile(`^[[:alnum:]._~/-]+$`)

func newCompileOutput(problems *progress.Writer) *compileOutput {
	o := &compileOutput{}
	o.Writer = progress.NewWriter(func(text []byte) {
		switch {
		case compiledPackage.Match(text):
			o.packages.Add(1)
		case !strings.HasPrefix(string(text), "go: downloading "):
			fmt.Fprintf(problems, "%s\n", text)
		}
	})
	return o
}

// progress returns the progress for a line; "" if there was nothing to do.
func (o *compileOutput) progress() string {
	switch n := o.packages.Load(); n {
	case 0:
		return ""
	case 1:
		return "1 package compiled"
	default:
		return fmt.Sprintf("%d packages compiled", n)
	}
}
