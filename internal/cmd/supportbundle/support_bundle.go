// Package supportbundle is `setpoint support-bundle`: it writes an archive with what a maintainer needs to find a defect. It
// reads little for each of many things, and nothing that is meant to be secret; what looks like a secret is masked. What
// cannot be read is listed, and the rest is written.
package supportbundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/portforward"
)

// readTimeout is how long is read, at most. What is missing then is noted.
const readTimeout = 2 * time.Minute

// Command returns `setpoint support-bundle`.
func Command(p *command.Invocation) *cobra.Command {
	f := &processes.ReadFlags{Replicas: true, PrintFlags: output.NewPrintFlags(output.AsTable)}
	file := ""
	c := &cobra.Command{
		Use:   "support-bundle",
		Short: "Write what a maintainer needs to find a defect to a file",
		Long: `Write an archive with what a maintainer needs to find a defect of Setpoint: what its
processes say of themselves, failing objects with their latest runs, controllers, and the
pods, logs and events of Setpoint's namespaces.

Secrets, ConfigMaps, requests and responses of hooks are not read, and what looks like a
secret is masked; look at the files before you send them. What cannot be read, because you
may not or a process does not respond, is in summary.txt and printed at the end.

` + processes.DiscoveryHelp,
		Example: `  setpoint support-bundle
  setpoint support-bundle --file - | tar -tz       # list what is in it`,
		Args: command.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), p, f, file) },
	}
	f.RegisterDiscovery(c)
	c.Flags().StringVar(&file, "file", "",
		"`file` to write, which must not exist yet; - is standard output (default: setpoint-support-bundle-TIME.tar.gz)")
	return c
}

func run(ctx context.Context, p *command.Invocation, f *processes.ReadFlags, file string) error {
	now := time.Now()
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := f.Open(limited, p)
	_, unknown := errors.AsType[*processes.UnknownProcessError](err)
	if r == nil || command.IsUsageError(err) || unknown {
		return err
	}
	file = cmp.Or(file, "setpoint-support-bundle-"+now.UTC().Format("20060102T150405Z")+".tar.gz")
	if file == "-" && output.IsTerminal(p.Stdout) {
		return command.UsageErrorf("--file - writes an archive, which a terminal cannot show; redirect the output")
	}
	out, finish := p.Stdout, func() error { return nil }
	if file != "-" {
		created, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("--file: %w", err)
		}
		out, finish = created, created.Close
	}
	a := newArchive(out, now)
	if err != nil {
		a.miss("processes", err) // The cluster says why there is no process.
	}
	read(limited, a, r)
	if err = errors.Join(a.close(), finish()); err != nil {
		err = fmt.Errorf("write the bundle: %w", err)
	}
	if ctx.Err() != nil {
		err, p.Code = errors.New("aborted"), command.Aborted
	}
	if err != nil && file != "-" {
		_ = os.Remove(file) // It is not complete.
	}
	if err != nil {
		return err
	}
	for _, missing := range a.missing {
		fmt.Fprintln(p.Stderr, "warning: not read:", output.Clean(missing))
	}
	if file != "-" {
		fmt.Fprintf(p.Stdout, "%s: %d files; look at them before you send it\n", file, len(a.files))
	}
	return nil
}

// read adds what the processes and the cluster say.
func read(ctx context.Context, a *archive, r *processes.Session) {
	a.addJSON("version.json", command.ReadVersion(), nil)
	slices.SortStableFunc(r.Sources, func(x, y inspect.Source) int { return strings.Compare(x.Name(), y.Name()) })
	for i, source := range r.Sources {
		(&process{a, source, r.Client, fmt.Sprintf("processes/%d/", i+1)}).read(ctx)
	}
	c := &cluster{archive: a, pods: r.PodsRead(), namespaces: []string{r.LeaseNamespace}}
	if len(r.Sources) > 0 && len(c.pods) == 0 {
		a.miss("logs", errors.New("the processes do not run in pods; add what they print"))
	}
	slices.SortFunc(c.pods, func(x, y portforward.Location) int {
		return strings.Compare(x.Namespace+"/"+x.Pod, y.Namespace+"/"+y.Pod)
	})
	for _, pod := range c.pods {
		c.namespaces = append(c.namespaces, pod.Namespace)
	}
	slices.Sort(c.namespaces)
	c.namespaces = slices.Compact(c.namespaces)
	var err error
	if c.client, err = newClient(r.Target.Config); err != nil {
		a.miss("cluster", err)
		return
	}
	c.read(ctx)
}
