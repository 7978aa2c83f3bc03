package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

func (p *program) runCommand() *cobra.Command {
	f := newRunFlags()
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the controllers of a cluster",
		Long: `Run the controllers that are defined in a cluster, until told to stop.

The cluster is the one of --kubeconfig, else of $KUBECONFIG, else the one this
program runs in, else the current one of ~/.kube/config.

Of several in one cluster one leads and acts. The others stand by with their
caches filled, and one of them takes over within 5 seconds of a clean stop of
the leader, and within 15 of a crash.

The first SIGINT or SIGTERM lets what is under way end; a second one does not.
The flags of Metacontroller are understood, too.`,
		Example: `  setpoint run                                    # inside a cluster
  setpoint run --kubeconfig dev.yaml --context staging
  setpoint run --selector team=web             # one team's controllers
  setpoint run --crds=skip --log-format=json      # the CRDs are installed apart`,
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
	log := newLog(p.stderr, f.logFormat.value, f.logLevel.value)
	for _, note := range notes {
		log.Warn("a flag of Metacontroller", "flag", note.flag, "now", note.replacement)
	}
	cluster, err := f.cluster.find()
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

// onReady calls say when ready is closed.
func onReady(ctx context.Context, ready <-chan struct{}, say func()) {
	select {
	case <-ready:
		say()
	case <-ctx.Done():
	}
}
