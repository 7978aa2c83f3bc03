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
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// quickCompile is how long compiling runs before it is shown. Without a terminal, a line
// reports progress every compileInterval.
const (
	compilePhaseDelay = time.Second
	compileInterval   = 30 * time.Second
)

// compiler compiles the program of one process.
type compiler struct {
	process  project.Process
	reaper   *process.Reaper
	reporter *progress.Reporter

	done  bool  // whether the first compilation has finished
	first error // its error, for the first start of the process
}

func (s *session) newCompiler(w *workspace, p project.Process) (*compiler, error) {
	p, err := w.WithCachedBinary(p)
	return &compiler{process: p, reaper: s.reaper, reporter: s.Reporter}, err
}

// compileAll compiles all programs before the cluster boots, because compiling uses all
// CPUs. No timeout includes it. A program that does not compile is compiled again when a
// file changes, unless a command needs it.
func (s *session) compileAll(ctx context.Context) error {
	var problems []error
	for _, w := range s.projects {
		w.compilers = map[string]*compiler{}
		for _, p := range w.Processes {
			if len(p.Build) == 0 {
				continue
			}
			c, err := s.newCompiler(w, p)
			if err != nil {
				return err
			}
			w.compilers[p.Name] = c
			c.first = c.run(ctx, true)
			problems = append(problems, c.first)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	if len(s.Command) == 0 {
		return nil
	}
	return errors.Join(problems...)
}

// prepare runs before each start of the process.
func (c *compiler) prepare(ctx context.Context) error {
	if !c.done {
		c.done = true
		return c.first
	}
	return c.run(ctx, false)
}

// run compiles the program. The compiler's messages are printed as they arrive; the error
// only reports the failure.
func (c *compiler) run(ctx context.Context, shown bool) error {
	output := newCompileOutput(c.reporter.Writer(c.process.Name))
	watched := make(chan struct{})
	ended := make(chan bool, 1)
	go func() {
		defer close(watched)
		c.watch(output, shown, ended)
	}()
	code, err := process.Command{
		Args: c.process.Build, Env: c.process.Environ(), Dir: c.process.Dir,
		Stdout: output, Stderr: output, Reaper: c.reaper, Grace: processGrace,
	}.Run(ctx)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: exit code %d", strings.Join(c.process.Build, " "), code)
	}
	output.Flush()
	ended <- err == nil
	<-watched
	if err != nil {
		return fmt.Errorf("process %s does not compile: %w", c.process.Name, err)
	}
	return nil
}

// watch shows the compilation as a phase, at once or after quickCompile.
func (c *compiler) watch(output *compileOutput, shown bool, ended <-chan bool) {
	began := time.Now()
	if !shown {
		select {
		case good := <-ended:
			if good {
				return
			}
			c.reporter.Phase("compile " + c.process.Name).Fail()
			return
		case <-time.After(compilePhaseDelay):
		}
	}
	phase := c.reporter.Phase("compile " + c.process.Name)
	ticker := time.NewTicker(compileInterval)
	defer ticker.Stop()
	for {
		select {
		case good := <-ended:
			if good {
				phase.Done(output.progress())
			} else {
				phase.Fail()
			}
			return
		case <-ticker.C:
			c.reporter.Still("compiling %s: %s, %s", c.process.Name, progress.FormatDuration(time.Since(began)), output.progress())
		}
	}
}

// compileOutput counts the packages that the go command reports, and passes other lines on.
type compileOutput struct {
	*progress.Writer

	packages, modules atomic.Int32
}

// The lines in which `go build -v` reports a compiled package and a fetched module.
var (
	compiledPackage = regexp.MustCompile(`^[[:alnum:]._~/-]+$`)
	fetchedModule   = regexp.MustCompile(`^go: downloading `)
)

func newCompileOutput(problems *progress.Writer) *compileOutput {
	o := &compileOutput{}
	o.Writer = progress.NewWriter(func(text []byte) {
		switch {
		case fetchedModule.Match(text):
			o.modules.Add(1)
		case compiledPackage.Match(text):
			o.packages.Add(1)
		default:
			fmt.Fprintf(problems, "%s\n", text)
		}
	})
	return o
}

// progress returns the progress for a line; "" if there was nothing to do.
func (o *compileOutput) progress() string {
	modules, packages := o.modules.Load(), o.packages.Load()
	switch {
	case modules > 0:
		return counted(modules, "module") + " fetched, " + counted(packages, "package") + " compiled"
	case packages > 0:
		return counted(packages, "package") + " compiled"
	}
	return ""
}

func counted(n int32, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
