// Package loglevel is `setpoint log-level`: it prints or changes the log level of running processes.
package loglevel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Command returns `setpoint log-level`.
func Command(p *command.Invocation) *cobra.Command {
	f := &processes.ReadFlags{Replicas: true, PrintFlags: output.NewRowFlags()}
	c := &cobra.Command{
		Use:   "log-level [debug|info|warn|error]",
		Short: "Print or change the log level of running processes",
		Long: `Print the lowest level of the log lines of running processes, or change it, in all replicas.

The change lasts until a process ends; then --log-level applies again. In a cluster the
replicas are the pods of the ReplicaSet or StatefulSet of the one that holds the Lease,
which takes permission to get and list pods.

` + processes.DiscoveryHelp,
		Example: `  setpoint log-level                     # the levels
  setpoint log-level debug               # of all processes
  setpoint log-level info --process setpoint`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			if _, err := inspect.ParseLogLevel(args[0]); err != nil {
				return command.UsageError(err)
			}
			return command.NoArguments(c, args[1:])
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return command.WithPrefix(word, inspect.LogLevels), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), p, f, args) },
	}
	f.RegisterDiscovery(c)
	f.PrintFlags.Register(c)
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

func run(ctx context.Context, p *command.Invocation, f *processes.ReadFlags, args []string) error {
	r, err := f.Open(ctx, p)
	if err != nil {
		return err
	}
	results := inspect.QueryAll(ctx, r.Timeouts, r.Sources, func(ctx context.Context, s inspect.Source) (inspect.Process, error) {
		if len(args) > 0 {
			if err := s.SetLogLevel(ctx, args[0]); err != nil {
				return inspect.Process{}, fmt.Errorf("%s: %w", s.Name(), err)
			}
		}
		return s.Process(ctx)
	})
	var rows []output.Row
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
		headers, cells := r.Columns(
			output.Column{Header: "PROCESS", Cell: process.Name},
			output.Column{Header: "INSTANCE", Cell: process.Instance},
			output.Column{Header: "LEADER", Cell: strconv.FormatBool(process.IsLeader)},
			output.Column{Header: "VERSION", Cell: process.Version, Wide: true},
			output.Column{Header: "LEVEL", Cell: cmp.Or(process.LogLevel, "unknown")},
		)
		rows = append(rows, output.Row{Headers: headers, Cells: cells, Version: process.LogLevel, Key: process.Name + "\t" +
			process.Instance,
			Value: level, Name: process.Name})
		all = append(all, level)
	}
	if len(rows) > 0 {
		if err := r.Show(r.Stdout, r.Table(r.Stdout), rows, all, r.Watch); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}
