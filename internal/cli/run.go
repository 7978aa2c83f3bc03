package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

func (p *program) runCommand() *cobra.Command {
	f := newRunFlags()
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the controllers of a cluster",
		Long: `Run the controllers defined in a cluster until SIGINT or SIGTERM.

The kubeconfig is that of --kubeconfig, else $KUBECONFIG, else the in-cluster config, else
~/.kube/config.

Several replicas elect a leader. The others stand by with warm caches; one of them takes
over within 5 seconds after a clean stop of the leader, and within 15 after a crash.

The first signal stops gracefully, a second one aborts. The flags of Metacontroller are
accepted too.`,
		Example: `  setpoint run                                    # inside a cluster
  setpoint run --kubeconfig dev.yaml --context staging
  setpoint run --selector team=web                # the controllers of one team
  setpoint run --crds=skip --log-format=json      # the CRDs are installed separately`,
		Args: func(c *cobra.Command, args []string) error { return noArguments(c, f.splitElectArg(args)) },
		RunE: func(c *cobra.Command, _ []string) error { return p.run(c.Context(), f) },
	}
	f.register(c)
	return c
}

func (p *program) run(ctx context.Context, f *runFlags) error {
	notes, err := f.applyLegacy()
	if err != nil {
		return usageError{err}
	}
	if err := f.check(); err != nil {
		return usageError{err}
	}
	log := flags.NewLog(p.stderr, f.LogFormat.Value, f.LogLevel.Value)
	for _, note := range notes {
		log.Warn("deprecated Metacontroller flag", "flag", note.flag, "replacement", note.replacement)
	}
	cluster, err := clusterFlags{f.Kubeconfig, f.Context}.find()
	if err != nil {
		return err
	}
	options := f.options(cluster)
	options.Log = log
	h, err := manager.New(options)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	go tuneGC(ctx)
	began := time.Now()
	go onReady(ctx, h.Ready(), func() { log.Info("ready", "took", time.Since(began).Round(time.Millisecond).String()) })
	return h.Run(ctx)
}

// onReady calls a function when ready is closed.
func onReady(ctx context.Context, ready <-chan struct{}, say func()) {
	select {
	case <-ready:
		say()
	case <-ctx.Done():
	}
}
