// Package record is `setpoint record`: it records the hook calls of running processes to a file.
package record

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// recordFlags are the flags of `setpoint record`.
type recordFlags struct {
	processes.ReadFlags
	controller string
	duration   time.Duration
	maxSize    string
	// cases prints an existing file.
	cases bool
}

// Command returns `setpoint record`.
func Command(p *command.Invocation) *cobra.Command {
	f := &recordFlags{ReadFlags: processes.ReadFlags{Replicas: true, PrintFlags: output.NewPrintFlags(output.AsText)}}
	c := &cobra.Command{
		Use:   "record FILE [KIND/NAME]",
		Short: "Record the hook calls of running processes, to test other logic with them",
		Long: `Record the calls of hooks, handlers and webhooks: requests, responses and their causes, until
Ctrl-C, --for or --max-size. FILE must not exist. 'setpoint run --record' and 'setpoint dev
--record' record continuously.

--cases records nothing: it prints what is in FILE as cases, and 'setpoint test' says what is
different with other logic. Of calls with the same request it prints the latest.

Values of Secrets are replaced by tokens: equal values have equal tokens. Calls that come
faster than they can be written are left out and counted; reconciles never wait. Calls with
objects that you may not read are left out, too. Processes that start meanwhile are recorded.
See docs/test.md.

` + client.KindHelp + `
` + processes.DiscoveryHelp,
		Example: `  setpoint record calls                              # until Ctrl-C
  setpoint record calls --for 10m -n shop            # the objects of one namespace
  setpoint record calls team/red -n shop             # one object
  setpoint record calls --controller compositecontroller.setpoint.dev/teams
  setpoint record calls --cases >tests/recorded.yaml # for 'setpoint test'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.UsageErrorf("no file given; use FILE [KIND/NAME]")
			}
			if len(args) > 1 {
				return client.ObjectArgs(nil, args[1:])
			}
			return nil
		},
		ValidArgsFunction: completeRecord(f),
		RunE:              func(c *cobra.Command, args []string) error { return run(c.Context(), p, f, args[0], args[1:]) },
	}
	f.RegisterDiscovery(c)
	set := c.Flags()
	set.Lookup("namespace").Usage = "`namespace` of the objects (default: all; for KIND/NAME that of the context)"
	set.StringVar(&f.controller, "controller", "",
		"`name` of the controller, as in logs, such as compositecontroller.setpoint.dev/teams, or teams")
	set.DurationVar(&f.duration, "for", 0, "how long to record; 0 means until Ctrl-C")
	set.BoolVar(&f.cases, "cases", false, "print the calls in FILE as cases of 'setpoint test', and record nothing")
	set.StringVar(&f.maxSize, "max-size", "256Mi", "`bytes` at which the recording ends")
	return c
}

// completeRecord completes a file, then an object.
func completeRecord(f *recordFlags) cobra.CompletionFunc {
	objects := client.Complete(&f.Cluster, &f.Namespace, client.CompleteObject)
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return objects(c, args[1:], word)
	}
}

func run(ctx context.Context, p *command.Invocation, f *recordFlags, file string, about []string) error {
	size, err := flags.ParseRecordSize(f.maxSize)
	switch {
	case err != nil:
		return command.UsageErrorf("--max-size %w", err)
	case f.duration < 0:
		return command.UsageErrorf("--for must not be negative")
	case f.cases && len(about) > 0:
		return command.UsageErrorf("--cases reads no cluster; choose by --controller and -n in place of KIND/NAME")
	case f.cases:
		return printCases(p, file, recording.Filter{Controller: f.controller, Namespace: f.Namespace})
	}
	r, filter, err := f.openRecorded(ctx, p, about)
	if err != nil {
		return err
	}
	s := newRecordSession(r, filter, file)
	if err := r.CheckController(ctx, filter.Controller, filter.Name); err != nil {
		return err
	}
	s.file, err = recording.OpenFile(recording.FileOptions{Path: file, MaxBytes: int64(size),
		Segment: recording.Segment{Version: command.ReadVersion().Version, Began: time.Now()}})
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	if f.duration > 0 {
		limited, cancel := context.WithTimeout(ctx, f.duration)
		defer cancel()
		ctx = limited
	}
	err = s.run(ctx)
	if failed := s.file.Close(); !errors.Is(err, failed) {
		err = errors.Join(err, failed)
	}
	return errors.Join(err, s.summarize(size))
}

// openRecorded finds the processes and what to record of them.
func (f *recordFlags) openRecorded(ctx context.Context, p *command.Invocation, about []string) (*processes.Session, recording.Filter,
	error) {
	filter := recording.Filter{Controller: f.controller, Namespace: f.Namespace}
	if len(about) == 0 {
		r, err := f.Open(ctx, p)
		return r, filter, err
	}
	r, ref, err := f.OpenObject(ctx, p, about)
	if err == nil {
		err = checkExists(ctx, r, ref)
	}
	filter.Kind, filter.Namespace, filter.Name = ref.Kind, ref.Namespace, ref.Name
	return r, filter, err
}

// checkExists reports an object that does not exist: nothing would be recorded of it.
func checkExists(ctx context.Context, r *processes.Session, ref object.Ref) error {
	stored, err := r.Client.Read(ctx, ref)
	if err != nil || stored != nil {
		return err
	}
	hint := "check the name and the namespace (-n); without KIND/NAME, the calls for all objects are recorded, also for those to come"
	return command.WithHint(fmt.Errorf("%s does not exist, so nothing of it can be recorded", client.NameOf(ref)), hint)
}

// summarize prints what was recorded.
func (s *recordSession) summarize(maxSize int) error {
	text := []string{fmt.Sprintf("Recorded %s of %s", output.Plural(s.file.Calls(), "call", "calls"),
		output.Plural(len(s.processes), "process", "processes"))}
	for _, left := range []struct {
		count int
		why   string
	}{
		{int(s.totals.Dropped), "came too fast and were left out"},
		{int(s.totals.Oversized), "are too large and were left out"},
		{s.hidden, "have objects that you may not read, and were left out"},
		{s.unchecked, "were left out, because the API server did not say whether you may read them"},
	} {
		if left.count > 0 {
			text = append(text, fmt.Sprintf("%d %s", left.count, left.why))
		}
	}
	if s.full {
		text = append(text, fmt.Sprintf("the file has its maximum size of %d bytes (--max-size)", maxSize))
	}
	_, err := fmt.Fprintf(s.Stdout, "%s.\n", strings.Join(text, "; "))
	return err
}
