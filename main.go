package setpoint

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

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// The exit codes of Main.
const (
	exitFailure = 1
	exitUsage   = 2
)

// Main parses the command line, runs the app until SIGINT or SIGTERM, and exits: with 0
// after a signal, 1 after an error, 2 after wrong usage. Another signal, a
// second later or more, exits immediately. It collects garbage more often while there is much of it, unless $GOGC or
// $GOMEMLIMIT is set.
//
// The flags are those of `setpoint run`, and those of Flags. The command rbac prints the
// permissions of the app as manifests, uninstall removes what it left in the cluster, and
// --help describes all.
func (a *App) Main() {
	a.Parse()
	os.Exit(exitCode(a.command(context.Background(), os.Stdout, os.Stderr), os.Stderr))
}

// Flags returns the flag set for the program's own flags, which Parse and Main accept in
// all commands. Add flags before Parse, and read them after it.
func (a *App) Flags() *flag.FlagSet { return a.flags }

// Parse parses the command line, for a program that needs its flags before it sets up the
// app; otherwise Main does it. It exits on wrong usage and on --help.
func (a *App) Parse() {
	if a.command != nil {
		return
	}
	command, err := a.parseCommand(os.Args[1:], os.Stdout)
	if err != nil {
		os.Exit(exitCode(err, os.Stderr))
	}
	a.command = command
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

func newUsageError(err error) error { return usageError{err} }

// program is the name of the executable.
func program() string { return filepath.Base(os.Args[0]) }

// command is what the arguments select.
type command func(ctx context.Context, stdout, stderr io.Writer) error

func (a *App) parseCommand(args []string, stdout io.Writer) (command, error) {
	name := "run"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	switch name {
	case "run":
		return a.runCommand(args, stdout)
	case "rbac":
		return a.rbacCommand(args, stdout)
	case "uninstall":
		return a.uninstallCommand(args, stdout)
	case "help":
		return a.runCommand([]string{"--help"}, stdout)
	}
	return nil, newUsageError(fmt.Errorf("unknown command %q", name))
}

// runCommand runs the app until a signal.
func (a *App) runCommand(args []string, stdout io.Writer) (command, error) {
	var f runFlags
	if err := f.parse(a, args, stdout); err != nil {
		return nil, err
	}
	return func(ctx context.Context, _, stderr io.Writer) error {
		o, err := f.options(stderr)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		// A second signal exits the process, but not one at once: `timeout` sends one to the process and
		// one to its group.
		context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
		o.Ready = func() { o.Log.Info("ready") }
		return a.Run(ctx, o)
	}, nil
}

// parseFlags parses flags, including the program's own, and refuses arguments.
func (a *App) parseFlags(f *flag.FlagSet, args []string, stdout io.Writer, help func()) error {
	var taken []string
	a.flags.VisitAll(func(own *flag.Flag) {
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
		return newUsageError(err)
	case f.NArg() > 0:
		return newUsageError(fmt.Errorf("unexpected argument %q", f.Arg(0)))
	}
	return nil
}

// runsInCluster reports whether the app runs in the cluster that it connects to.
func runsInCluster(o Options) bool {
	found, err := manager.FindCluster(o.Kubeconfig, o.Context)
	return err == nil && found.InCluster
}
