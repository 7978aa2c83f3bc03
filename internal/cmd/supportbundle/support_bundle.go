// Package supportbundle is `setpoint support-bundle`: it writes what a maintainer needs to find a defect.
package supportbundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/bundle"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// bundleTimeout is how long is read, at most. What is missing then is noted.
const bundleTimeout = 2 * time.Minute

// supportFlags are the flags of `setpoint support-bundle`.
type supportFlags struct {
	processes.ReadFlags
	file string
}

// Command returns `setpoint support-bundle`.
func Command(p *command.Invocation) *cobra.Command {
	f := &supportFlags{ReadFlags: processes.ReadFlags{Replicas: true, PrintFlags: output.NewPrintFlags(output.AsTable)}}
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

` + processes.DiscoveryHelp,
		Example: `  setpoint support-bundle
  setpoint support-bundle --file - | tar -tz       # list what is in it`,
		Args: command.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), p, f) },
	}
	f.RegisterDiscovery(c)
	c.Flags().StringVar(&f.file, "file", "",
		"`file` to write, which must not exist yet; - is standard output (default: setpoint-support-bundle-TIME.tar.gz)")
	return c
}

func run(ctx context.Context, p *command.Invocation, f *supportFlags) error {
	now := time.Now()
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	limited, cancel := context.WithTimeout(ctx, bundleTimeout)
	defer cancel()
	r, err := f.Open(limited, p)
	_, unknown := errors.AsType[*processes.UnknownProcessError](err)
	if r == nil || command.IsUsageError(err) || unknown {
		return err
	}
	options := bundleOptions(r, now)
	if err != nil {
		options.Missing = append(options.Missing, err) // The cluster says why there is no process.
	}
	out, name, err := f.create(p, now)
	if err != nil {
		return err
	}
	summary, err := bundle.Write(limited, out, options)
	if ctx.Err() != nil {
		err, p.Code = errors.New("aborted"), command.Aborted
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
		fmt.Fprintln(p.Stderr, "warning: not read:", output.Clean(missing))
	}
	if name != "-" {
		fmt.Fprintf(p.Stdout, "%s: %d files; look at them before you send it\n", name, summary.Files)
	}
	return nil
}

// create opens the file.
func (f *supportFlags) create(p *command.Invocation, now time.Time) (out io.WriteCloser, name string, err error) {
	name = f.file
	if name == "-" {
		if output.IsTerminal(p.Stdout) {
			return nil, "", command.UsageErrorf("--file - writes an archive, which a terminal cannot show; redirect the output")
		}
		return unclosed{p.Stdout}, name, nil
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
func bundleOptions(r *processes.Session, now time.Time) bundle.Options {
	slices.SortStableFunc(r.Sources, func(a, b inspect.Source) int { return strings.Compare(a.Name(), b.Name()) })
	options := bundle.Options{
		Config: r.Target.Config, Version: command.ReadVersion(), Time: now, Sources: r.Sources,
		Visible: visible{r.Client}, Namespaces: []string{r.LeaseNamespace},
	}
	for _, location := range r.PodsRead() {
		options.Pods = append(options.Pods, bundle.Pod{Namespace: location.Namespace, Name: location.Pod})
		options.Namespaces = append(options.Namespaces, location.Namespace)
	}
	slices.SortFunc(options.Pods, func(a, b bundle.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	slices.Sort(options.Namespaces)
	options.Namespaces = slices.Compact(options.Namespaces)
	return options
}

// visible hides from a bundle what the user may not read.
type visible struct{ *client.Client }

func (v visible) Controllers(ctx context.Context, all []inspect.Controller) []inspect.Controller {
	seen, _ := v.Client.Controllers(ctx, all)
	return seen
}

func (v visible) State(ctx context.Context, state inspect.ObjectState) any {
	if !v.Can(ctx, "get", state.Kind, state.Namespace, state.Name) {
		return nil
	}
	return v.Client.State(ctx, state)
}

func (v visible) Run(ctx context.Context, run inspect.Run) inspect.Run { return v.Redact(ctx, run) }
