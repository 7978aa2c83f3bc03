// Package run is `setpoint run`: it turns flags, those of Metacontroller and Kopf too, into options of the manager.
package run

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/memory"
)

// Command returns `setpoint run`.
func Command(p *command.Invocation) *cobra.Command {
	f := newRunFlags()
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the controllers of a cluster, or an operator in Python",
		Long: `Run the controllers defined in a cluster until SIGINT or SIGTERM.

--python runs an operator in Python instead: Setpoint starts the files with the author's
interpreter, and calls their handlers. --operator calls a process that runs already. The
flags of 'kopf run' are accepted. If the process ends, Setpoint ends with an error, with
exit code 3 if its files cannot be imported. See docs/python.md.

The kubeconfig is that of --kubeconfig, else $KUBECONFIG, else the in-cluster config, else
~/.kube/config.

Several replicas elect a leader. The others stand by with warm caches; one of them takes
over within 5 seconds after a clean stop of the leader, and within 15 after a crash.

The first signal stops gracefully, another one a second later or more aborts. The flags
of Metacontroller are accepted too.`,
		Example: `  setpoint run                                    # inside a cluster
  setpoint run --kubeconfig dev.yaml --context staging
  setpoint run --selector team=web                # the controllers of one team
  setpoint run --crds=skip --log-format=json      # the CRDs are installed separately
  setpoint run --python operator.py -n shop       # an operator in Python, in one namespace`,
		RunE: func(c *cobra.Command, args []string) error {
			args = f.splitElectArg(args)
			if f.operator.Given() {
				return runOperator(c.Context(), p, f, args)
			}
			if len(args) > 0 && filepath.Ext(args[0]) == ".py" {
				return command.UsageErrorf("unexpected argument %q: run an operator in Python with --python %s", args[0], args[0])
			}
			if err := command.NoArguments(c, args); err != nil {
				return err
			}
			return run(c.Context(), p, f)
		},
	}
	f.register(c)
	return c
}

func run(ctx context.Context, p *command.Invocation, f *runFlags) error {
	notes, err := f.applyLegacy()
	if err != nil {
		return command.UsageError(err)
	}
	if err := cmp.Or(f.operator.checkWithout(f.set), f.check()); err != nil {
		return command.UsageError(err)
	}
	log := flags.NewLog(p.Stderr, f.LogFormat.Value, f.LogLevel.Value)
	for _, note := range notes {
		log.Warn("deprecated Metacontroller flag", "flag", note.flag, "replacement", note.text)
	}
	cluster, err := client.ClusterFlags{Kubeconfig: f.Kubeconfig, Context: f.Context}.FindConfigured()
	if err != nil {
		return err
	}
	options := f.options(cluster)
	options.Log = log
	if err := f.hookProcesses.AddTo(&options); err != nil {
		return err
	}
	h, err := manager.New(options)
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	go memory.Tune(ctx)
	began := time.Now()
	go logReady(ctx, h.Ready(), log, began)
	return h.Run(ctx)
}

// logReady logs when ready is closed.
func logReady(ctx context.Context, ready <-chan struct{}, log *slog.Logger, began time.Time) {
	select {
	case <-ready:
		log.Info("ready", "took", time.Since(began).Round(time.Millisecond).String())
	case <-ctx.Done():
	}
}
