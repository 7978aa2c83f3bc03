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
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/spf13/cobra"
)

// bundleTimeout is how long is read, at most. What is missing then is noted.
const bundleTimeout = 2 * time.Minute

// supportFlags are the flags of `setpoint support-bundle`.
type supportFlags struct {
	readFlags
	file string
}

func (p *program) supportBundleCommand() *cobra.Command {
	f := &supportFlags{readFlags: readFlags{replicas: true, outputFlags: newOutputFlags(asTable)}}
	c := &cobra.Command{
		Use:   "support-bundle",
		Short: "Write what a maintainer needs to find a defect to a file",
		Long: `Write an archive with what a maintainer needs to find a defect of Setpoint:

- of each process: version, command line, controllers, metrics, stacks of goroutines, and
  failing objects with their latest runs, without requests and responses of hooks
- of the cluster: version, controllers with their status, and events on them
- of the namespaces of Setpoint: pods with the end of their logs, Deployments, Leases, events

Secrets and ConfigMaps are not read. Values of environment variables, tokens, passwords
and keys are masked wherever they look like ones; look at the files before you send them.
The archive has names of objects and namespaces.

What cannot be read, because you may not read it or a process does not respond, is in
summary.txt and printed at the end. Sizes and times are limited, however large the
cluster is.

` + discoveryHelp,
		Example: `  setpoint support-bundle
  setpoint support-bundle --file - | tar -tz       # list what is in it`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return p.supportBundle(c.Context(), f) },
	}
	f.registerDiscovery(c)
	c.Flags().StringVar(&f.file, "file", "",
		"`file` to write, which must not exist yet; - is standard output (default: setpoint-support-bundle-TIME.tar.gz)")
	return c
}

func (p *program) supportBundle(ctx context.Context, f *supportFlags) error {
	now := time.Now()
	ctx, stop := untilSignal(ctx)
	defer stop()
	limited, cancel := context.WithTimeout(ctx, bundleTimeout)
	defer cancel()
	r, err := f.open(limited, p)
	_, wrong := errors.AsType[usageError](err)
	_, unknown := errors.AsType[*unknownProcessError](err)
	if r == nil || wrong || unknown {
		return err
	}
	options := r.bundleOptions(now)
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
func (r *session) bundleOptions(now time.Time) bundle.Options {
	slices.SortStableFunc(r.sources, func(a, b inspect.Source) int { return strings.Compare(a.Name(), b.Name()) })
	options := bundle.Options{
		Config: r.target.Config, Version: readVersion(), Time: now, Sources: r.sources,
		Visible: visible{r.permissions}, Namespaces: []string{r.leaseNamespace},
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

func (v visible) Controllers(ctx context.Context, all []inspect.Controller) []inspect.Controller {
	seen, _ := v.controllers(ctx, all)
	return seen
}

func (v visible) State(ctx context.Context, state inspect.ObjectState) any {
	if !v.can(ctx, "get", state.Kind, state.Namespace, state.Name) {
		return nil
	}
	return v.state(ctx, state)
}

func (v visible) Run(ctx context.Context, run inspect.Run) inspect.Run { return v.redact(ctx, run) }
