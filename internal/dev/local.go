package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/processes"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// localProcess is a running process of a project.
type localProcess struct {
	project.Process
	process    *process.Supervisor
	output     *recentOutput
	sources    sources
	firstStart chan error // receives the result of the first start
	// compiled is the error of the first compilation, for the first start.
	compiled error
	started  bool
	// down reports whether the manager knows that the process does not respond. Only
	// handleEvent uses it.
	down bool
	// exit is how the process ended; nil while it runs.
	exit atomic.Pointer[processes.Exit]
}

// failure names the process in an error.
func (l *localProcess) failure(err error) error {
	return fmt.Errorf("%s: %w", l.Describe(), err)
}

// eachAddress calls a function with all addresses of the process's Service.
func (l *localProcess) eachAddress(call func(address string)) {
	if l.Service != nil {
		for _, address := range l.Service.Addresses() {
			call(address)
		}
	}
}

// unreachable names the process that does not respond, and its Service.
func (l *localProcess) unreachable(err error) error {
	return fmt.Errorf("process %s (service %s): %w", l.Name, l.Service, err)
}

// locals are the processes of all projects.
type locals []*localProcess

// replacing returns the processes in place of a Service.
func (ls locals) replacing() locals {
	return lists.Filter(ls, func(l *localProcess) bool { return l.Service != nil })
}

// at returns the process for an address, or nil.
func (ls locals) at(address string) *localProcess {
	for _, l := range ls.replacing() {
		if l.Service.Matches(address) {
			return l
		}
	}
	return nil
}

// dial connects to hooks. A call to a Service that a process replaces goes to the process,
// so that manifests run unchanged. It waits for a process that is starting, and fails for
// one that is down.
func (ls locals) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	l := ls.at(address)
	if l == nil {
		conn, err := dialer.DialContext(ctx, network, address)
		if _, unknown := errors.AsType[*net.DNSError](err); unknown {
			return nil, fmt.Errorf("%w; %s", err, ls.known())
		}
		return conn, err
	}
	if err := l.process.WaitReady(ctx); err != nil {
		return nil, l.unreachable(err)
	}
	return dialer.DialContext(ctx, network, net.JoinHostPort("localhost", strconv.Itoa(l.Port)))
}

// known lists the Services with a process, for an error about another host.
func (ls locals) known() string {
	known := lists.Map(ls.replacing(), func(l *localProcess) string { return l.Service.String() })
	if len(known) == 0 {
		return "no process in setpoint.yaml has a service: add `service: NAME.NAMESPACE` to one"
	}
	return "setpoint.yaml has processes for the services " + strings.Join(known, ", ")
}

// routes maps Services to the processes in their place.
func (ls locals) routes() []string {
	return lists.Map(ls.replacing(), func(l *localProcess) string {
		return l.Service.String() + "=" + net.JoinHostPort("localhost", strconv.Itoa(l.Port))
	})
}

// exits returns the processes that have exited and do not run again yet, for the dashboard.
func (ls locals) exits() (all []processes.Exit) {
	for _, l := range ls {
		if exit := l.exit.Load(); exit != nil {
			all = append(all, *exit)
		}
	}
	return all
}

// readiness returns the line that everything is ready, or what is not.
func (ls locals) readiness(unapplied []string, took string) string {
	var problems []string
	for _, l := range ls {
		ready, failed := l.process.State()
		if !ready && failed == nil {
			failed = fmt.Errorf("nothing listens on port %d yet", l.Port)
		}
		if failed != nil {
			problems = append(problems, l.failure(failed).Error())
		}
	}
	for _, dir := range unapplied {
		problems = append(problems, "the manifests of "+dir+" are not all applied")
	}
	if len(problems) == 0 {
		return fmt.Sprintf("\nReady after %s.\n\n", took)
	}
	return fmt.Sprintf("\nStarted after %s, not everything is ready:\n  %s\n\n", took, strings.Join(problems, "\n  "))
}

// sources are the files of a process. A change restarts it.
type sources struct {
	// paths are files and folders.
	paths []string
	// extensions limit folders to files of the script's language, so that an imported
	// module counts and other files do not.
	extensions []string
	// except excludes files.
	except func(path string) bool
}

// sourcesOf returns the files in setpoint.yaml, else those in the command and their
// folder's files of the same kind, else the whole folder.
func sourcesOf(p *project.Project, process project.Process) sources {
	s := sources{paths: process.Watch, except: func(string) bool { return false }}
	if len(process.Watch) > 0 {
		return s
	}
	for _, file := range process.Written {
		if !filepath.IsAbs(file) {
			file = filepath.Join(process.Dir, file)
		}
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || !inside(process.Dir, file) {
			continue
		}
		s.paths = append(s.paths, file)
		if ext := filepath.Ext(file); ext != "" {
			s.extensions = append(s.extensions, ext)
		}
	}
	if len(s.paths) > 0 && len(s.extensions) == 0 {
		return s
	}
	s.paths = append(s.paths, process.Dir)
	s.except = func(path string) bool { return isManifestOf(p, path) || filepath.Base(path) == project.FileName }
	return s
}

// contains reports whether a file is a source.
func (s sources) contains(path string) bool {
	for _, source := range s.paths {
		if path == source {
			return true
		}
		if inside(source, path) && !s.except(path) {
			return len(s.extensions) == 0 || slices.Contains(s.extensions, filepath.Ext(path))
		}
	}
	return false
}

// isManifestOf reports whether a project applies the file.
func isManifestOf(p *project.Project, path string) bool {
	return slices.ContainsFunc(p.Apply, func(source string) bool {
		return path == source || filepath.Dir(path) == source && manifest.IsManifest(path)
	})
}

func inside(dir, path string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(relative)
}

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
