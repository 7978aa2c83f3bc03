package run

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/dev"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/memory"
	"github.com/setpoint-dev/setpoint/internal/operator"
)

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
	cluster, err := client.ClusterFlags{Kubeconfig: f.Kubeconfig, Context: f.Context}.Find()
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
	h, err := manager.New(f.declaredOptions(cluster, op, options))
	if err != nil {
		return err
	}
	go onReady(ctx, h.Ready(), func() {
		options.Log.Info("ready", "operator", op.Name(), "took", time.Since(began).Round(time.Millisecond).String())
	})
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
		p.Code = dev.CodeNotImported
	}
	return err
}

// declaredOptions returns the options of the manager with what the operator declares.
func (f *runFlags) declaredOptions(cluster manager.Cluster, op *operator.Operator, o operator.Options) manager.Options {
	options := f.options(cluster)
	options.Log = o.Log
	options.Admission = f.Admission.WithClusterDefaults(cluster.InCluster, op.Name())
	op.Configure(&options)
	return options
}

// operatorOptions turns the flags into options of the operator.
func (f *runFlags) operatorOptions(files []string) (o operator.Options, notes []operatorNote, err error) {
	if notes, err = f.operator.apply(f); err != nil {
		return o, nil, err
	}
	if err := f.check(); err != nil {
		return o, nil, err
	}
	if o.Remote = f.operator.Remote; o.Remote.URL != "" {
		return o, notes, o.Remote.Check()
	}
	source, err := f.operator.Parse(files)
	if err != nil {
		return o, nil, err
	}
	source.LogFlags = f.operator.logFlags(f.LogFormat.Given)
	source.Kubeconfig = operator.Kubeconfig{File: f.Kubeconfig, Context: f.Context}
	o.Python = &source
	return o, notes, nil
}

// OperatorOptions returns what the arguments of `setpoint run` say of the operator. Its files are in the folder.
func OperatorOptions(args []string, dir string) (operator.Options, error) {
	f := newRunFlags()
	c := &cobra.Command{Use: "run"}
	f.register(c)
	if err := c.ParseFlags(args); err != nil {
		return operator.Options{}, err
	}
	f.operator.Python = inFolder(dir, f.operator.Python)
	o, _, err := f.operatorOptions(inFolder(dir, c.Flags().Args()))
	return o, err
}

// inFolder returns files that are in a folder with their paths; other arguments are modules.
func inFolder(dir string, args []string) []string {
	all := make([]string, len(args))
	for i, arg := range args {
		all[i] = arg
		if path := filepath.Join(dir, arg); !filepath.IsAbs(arg) {
			if _, err := os.Stat(path); err == nil {
				all[i] = path
			}
		}
	}
	return all
}
