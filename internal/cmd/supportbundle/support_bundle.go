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
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
)

// readTimeout is how long is read, at most, and requestTimeout how long one process or request may take. What is missing then
// is noted.
const (
	readTimeout    = 2 * time.Minute
	requestTimeout = 15 * time.Second
)

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
	(&collector{archive: a, Session: r}).read(limited)
	err = errors.Join(a.close(), finish())
	if ctx.Err() != nil {
		err, p.Code = errors.New("aborted"), command.Aborted
	}
	if err != nil {
		_ = os.Remove(file) // It is not complete.
		return fmt.Errorf("write the bundle: %w", err)
	}
	for _, missing := range a.missing {
		fmt.Fprintln(p.Stderr, "warning: not read:", output.Clean(missing))
	}
	if file != "-" {
		fmt.Fprintf(p.Stdout, "%s: %d files; look at them before you send it\n", file, len(a.files))
	}
	return nil
}
