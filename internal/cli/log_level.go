package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

func (p *program) logLevelCommand() *cobra.Command {
	f := &readFlags{replicas: true, outputFlags: newOutputFlags(asTable, asWide, asName, asJSON, asYAML)}
	c := &cobra.Command{
		Use:   "log-level [debug|info|warn|error]",
		Short: "Print or change the log level of running processes",
		Long: `Print the lowest level of the log lines of running processes, or change it, in all replicas.

The change lasts until a process ends; then --log-level applies again. In a cluster the
replicas are the pods of the ReplicaSet or StatefulSet of the one that holds the Lease,
which takes permission to get and list pods.

` + discoveryHelp,
		Example: `  setpoint log-level                     # the levels
  setpoint log-level debug               # of all processes
  setpoint log-level info --process setpoint`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("unexpected argument %q", args[1])}
			}
			if len(args) == 1 {
				if _, err := inspect.ParseLogLevel(args[0]); err != nil {
					return usageError{err}
				}
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return withPrefix(word, append([]string{}, inspect.LogLevels...)), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error { return p.logLevel(c.Context(), f, args) },
	}
	f.registerDiscovery(c)
	f.outputFlags.register(c)
	return c
}

// processLevel is the log level of a process, as JSON has it.
type processLevel struct {
	Name     string `json:"name"`
	Instance string `json:"instance"`
	IsLeader bool   `json:"isLeader"`
	Version  string `json:"version"`
	LogLevel string `json:"logLevel,omitempty"`
}

func (p *program) logLevel(ctx context.Context, f *readFlags, args []string) error {
	r, err := f.open(ctx, p)
	if err != nil {
		return err
	}
	results := inspect.QueryAll(ctx, r.timeouts, r.sources, func(ctx context.Context, s inspect.Source) (inspect.Process, error) {
		if len(args) > 0 {
			if err := s.SetLogLevel(ctx, args[0]); err != nil {
				return inspect.Process{}, fmt.Errorf("%s: %w", s.Name(), err)
			}
		}
		return s.Process(ctx)
	})
	var rows []row
	var all []processLevel
	var problems []error
	for _, each := range results {
		if each.Err != nil {
			problems = append(problems, each.Err)
			continue
		}
		process := each.Value
		level := processLevel{Name: process.Name, Instance: process.Instance, IsLeader: process.IsLeader, Version: process.Version,
			LogLevel: process.LogLevel}
		headers, cells := r.columns(
			column{header: "PROCESS", cell: process.Name},
			column{header: "INSTANCE", cell: process.Instance},
			column{header: "LEADER", cell: strconv.FormatBool(process.IsLeader)},
			column{header: "VERSION", cell: process.Version, wide: true},
			column{header: "LEVEL", cell: cmp.Or(process.LogLevel, "unknown")},
		)
		rows = append(rows, row{headers: headers, cells: cells, version: process.LogLevel, key: process.Name + "\t" + process.Instance,
			value: level, name: process.Name})
		all = append(all, level)
	}
	if len(rows) > 0 {
		if err := r.show(r.table(r.stdout), rows, all); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}
