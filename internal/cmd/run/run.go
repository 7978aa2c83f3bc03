// Package run is `setpoint run`: it turns flags, those of Metacontroller and Kopf too, into options of the manager.
package run

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/memory"
	"github.com/setpoint-dev/setpoint/internal/operator"
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
			return runControllers(c.Context(), p, f)
		},
	}
	f.register(c)
	return c
}

// runControllers runs the controllers that are defined in the cluster until a signal.
func runControllers(ctx context.Context, p *command.Invocation, f *runFlags) error {
	notes, err := applyLegacy(f.set)
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

// runOperator runs the controllers that an operator declares until a signal.
func runOperator(ctx context.Context, p *command.Invocation, f *runFlags, files []string) error {
	options, notes, err := f.operatorOptions(files)
	if err != nil {
		return command.UsageError(err)
	}
	options.Log = flags.NewLog(p.Stderr, f.LogFormat.Value, f.LogLevel.Value)
	if f.operator.verbose && !f.operator.debug {
		flags.LimitLibraries(p.Stderr, f.LogFormat.Value, "info")
	}
	for _, note := range notes {
		options.Log.Warn(note.text, "flag", note.flag) //nolint:sloglint // One constant message for each flag.
	}
	cluster, err := client.ClusterFlags{Kubeconfig: f.Kubeconfig, Context: f.Context}.FindConfigured()
	if err != nil {
		return err
	}
	options.Config = cluster.Config
	if options.Python != nil {
		options.Python.Stdout, options.Python.Stderr = p.Stdout, p.Stderr
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	if f.operator.stopOnEOF {
		ctx = untilEOF(ctx, p.Stdin, options.Log)
	}
	go memory.Tune(ctx)
	began := time.Now()
	op, err := operator.Open(ctx, options)
	if err != nil {
		return notOpened(ctx, p, err)
	}
	defer op.Close()
	managed := f.options(cluster)
	managed.Log, managed.Admission = options.Log, f.Admission.WithClusterDefaults(cluster.InCluster, op.Name)
	op.Configure(&managed)
	h, err := manager.New(managed)
	if err != nil {
		return err
	}
	go logReady(ctx, h.Ready(), options.Log.With("operator", op.Name), began)
	return op.Run(ctx, h.Run)
}

// untilEOF returns a context that ends with the input.
func untilEOF(ctx context.Context, input io.Reader, log *slog.Logger) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, input) // An error ends it too.
		log.Info("standard input ended; stopping")
		cancel()
	}()
	return ctx
}

// notOpened returns the error of an operator that did not declare its controllers; nil after a
// signal.
func notOpened(ctx context.Context, p *command.Invocation, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The user has ended it.
	}
	if errors.Is(err, operator.ErrImport) {
		p.Code = operator.ImportCode
	}
	return err
}
