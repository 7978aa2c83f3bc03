package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/bundle"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/spf13/cobra"
)

// supportFlags are the flags of `setpoint support-bundle`.
type supportFlags struct {
	readFlags
	file     string
	logLines int64
	maxSize  string
	timeout  time.Duration
}

func (p *program) supportBundleCommand() *cobra.Command {
	f := &supportFlags{readFlags: readFlags{replicas: true, outputFlags: newOutputFlags(asTable)}}
	c := &cobra.Command{
		Use:   "support-bundle",
		Short: "Write what a maintainer needs to find a defect to a file",
		Long: `Write an archive with what a maintainer needs to find a defect of Setpoint:

- of each process: version, command line, controllers, metrics, requests to the API
  server, stacks of goroutines, a profile of the heap, and failing objects with their
  latest runs, without requests and responses of hooks
- of the cluster: version, controllers, their CRDs and events, webhook configurations
- of the namespaces of Setpoint: pods with the end of their logs, Deployments, Leases,
  events, RBAC

Secrets and ConfigMaps are not read. Values of environment variables, tokens, passwords
and keys are masked wherever they look like ones; look at the files before you send them.
The archive has names of objects and namespaces.

What cannot be read, because you may not read it or a process does not respond, is in
summary.txt and printed at the end. Sizes and times are limited, however large the
cluster is.

` + discoveryHelp,
		Example: `  setpoint support-bundle
  setpoint support-bundle --file - | tar -tz       # list what is in it
  setpoint support-bundle --log-lines 10000 --timeout 5m`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return p.supportBundle(c.Context(), f) },
	}
	f.registerDiscovery(c)
	set := c.Flags()
	set.StringVar(&f.file, "file", "", "`file` to write, which must not exist yet; - is standard output (default: setpoint-support-bundle-TIME.tar.gz)")
	set.Int64Var(&f.logLines, "log-lines", 2000, "last `lines` of the log of each container")
	set.StringVar(&f.maxSize, "max-size", "100Mi", "most `bytes` of all files together, before compression")
	set.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long to read; what is missing then is noted")
	return c
}

// check validates the flags.
func (f *supportFlags) check() (maxBytes int, err error) {
	maxBytes, err = manager.ParseBytes(f.maxSize)
	switch {
	case err != nil || maxBytes < 1<<20:
		return 0, fmt.Errorf("--max-size must be at least 1Mi and less than 2Gi, such as 100Mi, not %s", f.maxSize)
	case f.logLines < 0:
		return 0, fmt.Errorf("--log-lines must not be negative, not %d", f.logLines)
	case f.timeout <= 0:
		return 0, fmt.Errorf("--timeout must be greater than zero, not %s", f.timeout)
	}
	return maxBytes, nil
}

func (p *program) supportBundle(ctx context.Context, f *supportFlags) error {
	maxBytes, err := f.check()
	if err != nil {
		return usageError{err}
	}
	now := time.Now()
	ctx, stop := untilSignal(ctx)
	defer stop()
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	r, err := f.open(limited, p)
	_, wrong := errors.AsType[usageError](err)
	_, unknown := errors.AsType[*unknownProcessError](err)
	if r == nil || wrong || unknown {
		return err
	}
	options := r.bundleOptions(now, maxBytes, f.logLines)
	if err != nil {
		options.Missing = append(options.Missing, err) // The cluster says why there is no process.
	}
	out, name, err := f.create(p, now)
	if err != nil {
		return err
	}
	summary, err := bundle.Write(limited, out, options)
	if ctx.Err() != nil {
		err, p.code = errors.New("aborted"), codeAborted
	}
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err != nil {
		if name != "-" {
			_ = os.Remove(name) // It is not complete.
		}
		return err
	}
	for _, missing := range summary.Missing {
		fmt.Fprintln(p.stderr, "warning: not read:", clean(missing))
	}
	if name != "-" {
		fmt.Fprintf(p.stdout, "%s: %d files; look at them before you send it\n", name, summary.Files)
	}
	return nil
}

// create opens the file.
func (f *supportFlags) create(p *program, now time.Time) (out io.WriteCloser, name string, err error) {
	name = f.file
	if name == "-" {
		if isTerminal(p.stdout) {
			return nil, "", usageError{errors.New("--file - writes an archive, which a terminal cannot show; redirect the output")}
		}
		return unclosed{p.stdout}, name, nil
	}
	if name == "" {
		name = "setpoint-support-bundle-" + now.UTC().Format("20060102T150405Z") + ".tar.gz"
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("--file: %w", err)
	}
	return file, name, nil
}

// unclosed is standard output, which the process still needs.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// bundleOptions returns what was found, limited to what the user may read.
func (r *session) bundleOptions(now time.Time, maxBytes int, logLines int64) bundle.Options {
	slices.SortStableFunc(r.sources, func(a, b model.Source) int { return strings.Compare(a.Name(), b.Name()) })
	options := bundle.Options{
		Config: r.target.Config, Version: readVersion(), Time: now, Sources: r.sources,
		Visible: visible{r.permissions}, LogLines: logLines, MaxBytes: maxBytes,
		Namespaces: []string{r.leaseNamespace},
		Progress: func(what string) {
			if isTerminal(r.stderr) {
				fmt.Fprintln(r.stderr, "reading", clean(what))
			}
		},
	}
	for location := range r.pods {
		options.Pods = append(options.Pods, bundle.Pod{Namespace: location.Namespace, Name: location.Pod})
		options.Namespaces = append(options.Namespaces, location.Namespace)
	}
	slices.SortFunc(options.Pods, func(a, b bundle.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	slices.Sort(options.Namespaces)
	options.Namespaces = slices.Compact(options.Namespaces)
	return options
}

// visible hides from a bundle what the user may not read.
type visible struct{ *permissions }

func (v visible) Controllers(ctx context.Context, all []model.Controller) []model.Controller {
	seen, _ := v.controllers(ctx, all)
	return seen
}

func (v visible) State(ctx context.Context, state model.ObjectState) any {
	if !v.can(ctx, "get", state.Kind, state.Namespace, state.Name) {
		return nil
	}
	return v.state(ctx, state)
}

func (v visible) Err() error { return v.takeErr() }

func (v visible) Run(ctx context.Context, run model.Run) model.Run { return v.redact(ctx, run) }
