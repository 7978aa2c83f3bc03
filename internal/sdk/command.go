package sdk

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/uninstall"
)

// The exit codes of Main.
const (
	exitFailure = 1
	exitUsage   = 2
)

// CommandLine is the command line of a program.
type CommandLine struct {
	app *App
	// flags are the program's own, and selected is what the arguments select.
	flags    *flag.FlagSet
	selected command
}

// command is what arguments select.
type command func(ctx context.Context, stdout, stderr io.Writer) error

// NewCommandLine returns the command line of a program that runs an app.
func NewCommandLine(app *App) *CommandLine {
	return &CommandLine{app: app, flags: flag.NewFlagSet(app.name, flag.ContinueOnError)}
}

// Main runs what the command line selects, and exits.
func (l *CommandLine) Main() {
	l.ParseArguments()
	os.Exit(exitCode(l.selected(context.Background(), os.Stdout, os.Stderr), os.Stderr))
}

// Flags returns the program's own flags.
func (l *CommandLine) Flags() *flag.FlagSet { return l.flags }

// ParseArguments parses the command line once. It exits on wrong usage and on --help.
func (l *CommandLine) ParseArguments() {
	if l.selected != nil {
		return
	}
	selected, err := l.parse(os.Args[1:], os.Stdout)
	if err != nil {
		os.Exit(exitCode(err, os.Stderr))
	}
	l.selected = selected
}

// exitCode prints an error and returns the exit code.
func exitCode(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(stderr, "error:", err)
	if _, wrong := errors.AsType[usageError](err); wrong {
		fmt.Fprintf(stderr, "hint: %s --help\n", program())
		return exitUsage
	}
	return exitFailure
}

// usageError is an error in the arguments.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func program() string { return filepath.Base(os.Args[0]) }

func (l *CommandLine) parse(args []string, stdout io.Writer) (command, error) {
	name := "run"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	if name == "help" {
		name, args = "run", []string{"--help"}
	}
	// All have the flags of run: who knows how the program runs needs no others.
	do, known := map[string]func(ctx context.Context, f *runFlags, o Options, stdout io.Writer) error{
		"run": l.run, "rbac": l.printRBAC, "uninstall": l.uninstall,
	}[name]
	if !known {
		return nil, usageError{fmt.Errorf("unknown command %q", name)}
	}
	var f runFlags
	if err := f.parse(l, args, stdout); err != nil {
		return nil, err
	}
	return func(ctx context.Context, stdout, stderr io.Writer) error {
		o, err := f.options(stderr)
		if err != nil {
			return err
		}
		return do(ctx, &f, o, stdout)
	}, nil
}

// parseFlags parses flags, including the program's own, and refuses arguments.
func (l *CommandLine) parseFlags(f *flag.FlagSet, args []string, stdout io.Writer, help func()) error {
	var taken []string
	l.flags.VisitAll(func(own *flag.Flag) {
		if f.Lookup(own.Name) != nil {
			taken = append(taken, "--"+own.Name)
			return
		}
		f.Var(own.Value, own.Name, own.Usage)
	})
	f.SetOutput(io.Discard)
	err := f.Parse(args)
	switch {
	case len(taken) > 0:
		return fmt.Errorf("flags of the program conflict with those of the app: %s", strings.Join(taken, ", "))
	case errors.Is(err, flag.ErrHelp):
		f.SetOutput(stdout)
		help()
		return err
	case err != nil:
		return usageError{err}
	case f.NArg() > 0:
		return usageError{fmt.Errorf("unexpected argument %q", f.Arg(0))}
	}
	return nil
}

// run runs the app until a signal.
func (l *CommandLine) run(ctx context.Context, _ *runFlags, o Options, _ io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A second signal exits the process, but not one at once: `timeout` sends one to the process and
	// one to its group.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	o.Ready = func() { o.Log.Info("ready") }
	return l.app.Run(ctx, o)
}

// printRBAC prints the permissions of the app. Replicas may elect a leader unless the flags say that they do not.
func (l *CommandLine) printRBAC(ctx context.Context, f *runFlags, o Options, stdout io.Writer) error {
	o.LeaderElection.Enabled = f.LeaderElect.Value != "false"
	manifests, err := l.app.RBAC(ctx, f.serviceAccount, o)
	if err != nil {
		return err
	}
	_, err = stdout.Write(manifests)
	return err
}

func (l *CommandLine) uninstall(ctx context.Context, f *runFlags, o Options, stdout io.Writer) error {
	return l.app.Uninstall(ctx, o, uninstall.Options{DryRun: f.dryRun, Report: func(line string) { fmt.Fprintln(stdout, line) }})
}

// runFlags are the flags of run. Those that `setpoint run` has too are declared once.
type runFlags struct {
	flags.Flags

	allowBreakingCRDs, dryRun bool
	shutdownTimeout           time.Duration
	serviceAccount            string
}

func (f *runFlags) parse(l *CommandLine, args []string, stdout io.Writer) error {
	set := flag.NewFlagSet(l.app.name, flag.ContinueOnError)
	f.register(l.app, set)
	return l.parseFlags(set, args, stdout, func() {
		fmt.Fprintf(stdout, "%[1]s [run] [flags]       run the controllers until SIGINT or SIGTERM\n"+
			"%[1]s rbac [flags]        print the ServiceAccount, roles and bindings that the program needs\n"+
			"%[1]s uninstall [flags]   remove its webhook configurations, finalizers, Secrets and lease; stop the program first\n\n"+
			"Exit codes: 0 success, 1 failure, 2 wrong usage.\n\nFlags, which are those that the program runs with:\n", program())
		set.PrintDefaults()
	})
}

func (f *runFlags) register(a *App, set *flag.FlagSet) {
	f.Register(set, flags.Defaults{Program: "the program", LeaseName: a.name, ServiceName: a.name})
	set.BoolVar(&f.allowBreakingCRDs, "allow-breaking-crds", false, "upgrade CRDs even if that can break stored objects or clients")
	set.DurationVar(&f.shutdownTimeout, "shutdown-timeout", 10*time.Second, "how long handlers and daemons have to return at shutdown")
	set.StringVar(&f.serviceAccount, "service-account", a.name, "for rbac: `name` of the ServiceAccount")
	set.BoolVar(&f.dryRun, "dry-run", false, "for uninstall: only print what would be removed")
	if a.dashboard != nil {
		a.dashboard.RegisterFlags(set)
	}
}

func (f *runFlags) options(stderr io.Writer) (Options, error) {
	if err := f.Check(); err != nil {
		return Options{}, usageError{err}
	}
	if f.shutdownTimeout <= 0 {
		return Options{}, usageError{fmt.Errorf("--shutdown-timeout must be greater than zero, not %s", f.shutdownTimeout)}
	}
	o := Options{Kubeconfig: f.Kubeconfig, Context: f.Context, Options: manager.Options{
		AllowBreakingCRDs: f.allowBreakingCRDs, ShutdownTimeout: f.shutdownTimeout,
		Settings:  compile.Settings{Namespace: f.Namespace, Namespaces: f.Namespaces, Workers: f.Workers},
		ClientQPS: float32(f.QPS), ClientBurst: f.Burst,
		Address: f.Address, HealthAddress: f.HealthAddress, InspectAddress: f.InspectAddress, Profiling: f.Profiling,
		Admission: f.Admission, LeaderElection: f.LeaderElection,
		History: f.History(), Recording: f.Recording(), Traces: f.Traces(),
		Log: flags.NewLog(stderr, f.LogFormat.Value, f.LogLevel.Value),
	}}
	found, err := manager.FindCluster(o.Kubeconfig, o.Context)
	o.LeaderElection.Enabled = f.Elects(err == nil && found.InCluster)
	return o, nil
}
