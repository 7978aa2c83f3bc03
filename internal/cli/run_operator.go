package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/memory"
	"github.com/setpoint-dev/setpoint/internal/operator"
	"github.com/setpoint-dev/setpoint/python"
)

// runOperator runs the controllers that an operator declares until a signal.
func (p *program) runOperator(ctx context.Context, f *runFlags, files []string) error {
	options, notes, err := f.operatorOptions(files)
	if err != nil {
		return usageError{err}
	}
	options.Log = flags.NewLog(p.stderr, f.LogFormat.Value, f.LogLevel.Value)
	if f.operator.verbose && !f.operator.debug {
		flags.LimitLibraries(p.stderr, f.LogFormat.Value, "info")
	}
	for _, note := range notes {
		options.Log.Warn(note.text, "flag", note.flag) //nolint:sloglint // One constant message for each flag.
	}
	cluster, err := clusterFlags{f.Kubeconfig, f.Context}.find()
	if err != nil {
		return err
	}
	options.Config = cluster.Config
	if options.Python != nil {
		options.Python.Stdout, options.Python.Stderr = p.stdout, p.stderr
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	if f.operator.stopOnEOF {
		ctx = untilEOF(ctx, p.stdin, options.Log)
	}
	go memory.Tune(ctx)
	began := time.Now()
	op, err := operator.Open(ctx, options)
	if err != nil {
		return p.notOpened(ctx, err)
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
func (p *program) notOpened(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The user has ended it.
	}
	if errors.Is(err, operator.ErrImport) {
		p.code = dev.CodeNotImported
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
	if o.Remote = f.operator.remote; o.Remote.URL != "" {
		return o, notes, o.Remote.Check()
	}
	source, err := f.operator.source(files)
	if err != nil {
		return o, nil, err
	}
	source.LogFlags = f.operator.logFlags(f.LogFormat.Given)
	source.Kubeconfig = operator.Kubeconfig{File: f.Kubeconfig, Context: f.Context}
	o.Python = &source
	return o, notes, nil
}

// source returns the files and modules of --python, -m and the arguments.
func (f *operatorFlags) source(files []string) (operator.Python, error) {
	source, err := operator.ParsePython(append(append([]string(nil), f.python...), files...), f.modules)
	if err != nil {
		return source, err
	}
	source.Name, source.Interpreter, source.Package = f.name, f.interpreter, python.Package
	source.Executable, err = os.Executable()
	return source, err
}
