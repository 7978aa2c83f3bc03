package dev

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// compilePhaseDelay is how long compiling runs before it is shown. Without a terminal, a line
// reports progress every compileInterval.
const (
	compilePhaseDelay = time.Second
	compileInterval   = 30 * time.Second
)

// prepare runs before each start of a process. The first one was compiled before.
func (l *localProcess) prepare(ctx context.Context, r *process.Reaper, reporter *progress.Reporter) error {
	if !l.started || len(l.Build) == 0 {
		l.started = true
		return l.compiled
	}
	return l.compile(ctx, r, reporter, compilePhaseDelay)
}

// compile compiles a program, which is shown as a phase after some time. The compiler's messages are printed as they arrive;
// the error only reports the failure.
func (l *localProcess) compile(ctx context.Context, r *process.Reaper, reporter *progress.Reporter, shownAfter time.Duration) error {
	output := newCompileOutput(reporter.Writer(l.Name))
	ended := make(chan error, 1)
	go func() {
		err := l.Compile(ctx, r, output)
		output.Flush()
		ended <- err
	}()
	began, shown := time.Now(), time.After(shownAfter)
	ticker := time.NewTicker(compileInterval)
	defer ticker.Stop()
	var shownAs *progress.Phase
	for {
		select {
		case err := <-ended:
			if shownAs == nil && err == nil {
				return nil
			}
			if shownAs == nil {
				shownAs = reporter.Phase("compile " + l.Name)
			}
			shownAs.End(err, output.summary())
			return err
		case <-shown:
			shownAs = reporter.Phase("compile " + l.Name)
		case <-ticker.C:
			reporter.Still("compiling %s: %s, %s", l.Name, progress.FormatDuration(time.Since(began)), output.summary())
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

// summary says how many packages are compiled; "" if there was nothing to do.
func (o *compileOutput) summary() string {
	switch n := o.packages.Load(); n {
	case 0:
		return ""
	case 1:
		return "1 package compiled"
	default:
		return fmt.Sprintf("%d packages compiled", n)
	}
}
