// Package dev is `setpoint dev`: it turns flags and signals into options of the dev loop.
package dev

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/hooks"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dev"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// devFlags are the flags of `setpoint dev`.
type devFlags struct {
	dev.Options

	logLevel *flags.Choice
	// clusterOnly starts no controllers.
	clusterOnly bool
	recording   flags.RecordFlags
	traces      flags.TraceFlags
	context     devContextFlags
}

// Command returns `setpoint dev`. It boots a control plane with the function, if there is one. A key reconciles all objects
// of a kubeconfig.
func Command(p *command.Invocation, boot dev.Boot, reconcile func(context.Context, string, io.Writer) error) *cobra.Command {
	f := &devFlags{logLevel: flags.OneOf("warn", "debug", "info", "error")}
	f.Boot, f.Reconcile, f.Program, f.Version, f.Abort = boot, reconcile, programName(), command.ReadVersion().Version, command.Abort
	c := &cobra.Command{
		Use:   "dev [DIR…] [FILE…] [-- COMMAND…]",
		Short: "Boot a cluster and develop a controller in it",
		Long: `Boot a real Kubernetes control plane on this machine, run the controllers in it, and
reload the files of each DIR as its setpoint.yaml says:

  apply: [crd.yaml, controller.yaml, example.yaml]   # files or folders
  processes:
  - command: [python3, -u, sync.py]
    env: {PORT: "{port}"}               # a free port is chosen
    service: my-hook.my-namespace       # calls to this Service go to the process

A process can use the port of another one as {port:NAME}. "ready: /path" waits until
that path responds. Programs are compiled first; no timeout includes that. See
docs/setpoint-yaml.md for all fields.

FILE.yaml has manifests, such as a CRD, a controller with inline hooks and an example, in
any order. It needs no setpoint.yaml. FILE.py is an operator in Python, such as a Kopf script: 'setpoint run --python' runs it
in the folder of the first file, again after each change of a Python file there.

When a manifest changes it is applied again. Objects that no manifest holds any more are
deleted once the files have been read twice with the same content, 3 s apart. When a hook changes it is restarted, and
its objects are reconciled at once.

With --context NAME nothing is booted: the manifests are applied to the cluster of that
kubeconfig context, and controllers, hooks and operators run here, limited to --namespaces.
What exists in the cluster stays as it is. Everything that was created is listed in a
ConfigMap; --cleanup removes it, and nothing else. See docs/develop.md.

COMMAND runs once everything is ready, with KUBECONFIG set and SETPOINT set to the path
of this program. Then everything stops, and the exit code is that of the command.
Ctrl-C stops everything; another one, a second later or more, aborts.
Without COMMAND, and $CI, a terminal has keys: "?" lists them.`,
		Example: `  setpoint dev                                        # an empty cluster
  setpoint dev examples/immortalcontainer             # with an example
  setpoint dev tenant.yaml                            # with a file of manifests
  setpoint dev operator.py                            # with an operator in Python
  setpoint dev --data-dir ./cluster                   # kept between runs
  setpoint dev examples/immortalcontainer -- make test
  setpoint dev --context kind-dev -n web tenant.yaml  # in a cluster one already has
  setpoint dev --context kind-dev --cleanup tenant.yaml`,
		RunE: func(c *cobra.Command, args []string) error {
			dirs, cmd := args, []string(nil)
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				dirs, cmd = args[:dash], args[dash:]
			}
			if err := f.context.check(c.Flags(), dirs, cmd); err != nil {
				return command.UsageError(err)
			}
			if f.context.cleanup {
				return cleanup(c.Context(), p, f, dirs)
			}
			return run(p, c, f, dirs, cmd)
		},
	}
	c.Flags().StringVar(&f.DataDir, "data-dir", "", "`folder` to keep the cluster in between runs (default: a temporary one)")
	c.Flags().StringVar(&f.Kubeconfig, "kubeconfig", "",
		"`file` to write the kubeconfig to (default: in the data directory); with --context, the file with that context")
	c.Flags().StringVar(&f.KubernetesBinaries, "kubernetes-binaries", "", "`folder` with kube-apiserver, kube-controller-manager and "+
		"kube-scheduler of another version of Kubernetes (default: $SETPOINT_KUBERNETES_BINARIES, or those in this binary)")
	c.Flags().StringVar(&f.DashboardAddress, "dashboard-address", dev.AnyDashboardAddress, "loopback `address` of the dashboard; "+
		"127.0.0.1:0 uses port 7400, or a free one if that is taken; empty disables the dashboard")
	c.Flags().StringVar(&f.ProcessLogs, "process-logs", "", "`folder` for the output of the processes, one NAME.log each, instead of "+
		"the terminal; the last lines of a process that exits are printed")
	c.Flags().DurationVar(&f.ReadyTimeout, "ready-timeout", 10*time.Minute,
		"how long COMMAND waits for the processes to become ready once they are compiled; 0 disables the timeout")
	c.Flags().StringVar(&f.Interpreter, "python-interpreter", "",
		"`path` of Python 3.9 or newer for FILE.py (default: that of $VIRTUAL_ENV, or python3)")
	c.Flags().BoolVar(&f.clusterOnly, "cluster-only", false,
		"boot the cluster without controllers, and apply and run no DIR, for 'setpoint run' or another program")
	command.AddChoice(c, f.logLevel, "log-level", "", "lowest level of controller logs")
	recording := flag.NewFlagSet("dev", flag.ContinueOnError)
	f.recording.Register(recording)
	f.traces.Register(recording)
	c.Flags().AddGoFlagSet(recording)
	f.context.register(c, &f.Kubeconfig)
	return c
}

func run(p *command.Invocation, c *cobra.Command, f *devFlags, args, cmd []string) error {
	if f.Boot == nil && f.context.name == "" {
		return command.WithHint(
			errors.New("this binary has no control plane"),
			"use the full binary (`make build` writes it to bin/setpoint), or `setpoint dev --context` with an existing cluster",
		)
	}
	if _, _, operator := project.Split(args); f.Interpreter != "" && len(operator) == 0 {
		return command.UsageErrorf("--python-interpreter requires FILE.py; a setpoint.yaml has it in its command")
	}
	if f.clusterOnly && f.recording.Options().File != "" {
		return command.UsageErrorf("--record excludes --cluster-only, which runs no controllers")
	}
	if err := cmp.Or(f.recording.Check(), f.traces.Check()); err != nil {
		return command.UsageError(err)
	}
	f.Paths, f.Command, f.Recording, f.Traces = args, cmd, f.recording.Options(), f.traces.Options()
	if f.clusterOnly {
		if len(args) > 0 {
			fmt.Fprintf(p.Stderr, "warning: --cluster-only: %s is neither applied nor run\n", output.Clean(strings.Join(args, ", ")))
		}
		f.DashboardAddress, f.Paths = "", nil
	}
	var err error
	if f.context.name != "" {
		if f.Target, err = f.context.target(f.Kubeconfig, args); err != nil {
			return err
		}
	}
	if f.Executable, err = os.Executable(); err != nil {
		return err
	}
	connect(p, &f.Options, f.logLevel.Value)
	if !f.clusterOnly {
		callHooks(&f.Options)
	}
	signals, stop := command.CatchSignals()
	defer stop()
	f.Signals = signals
	p.Code, err = dev.Loop(c.Context(), f.Options)
	return err
}

// connect sets the standard streams of a session. Stdout belongs to COMMAND, if there is
// one.
func connect(p *command.Invocation, o *dev.Options, logLevel string) {
	out := p.Stdout
	if len(o.Command) > 0 {
		out = p.Stderr
	}
	o.Interactive = output.IsTerminal(p.Stdin)
	o.Stdin, o.Stdout, o.Stderr = p.Stdin, p.Stdout, p.Stderr
	if len(o.Command) == 0 && o.Interactive && output.IsTerminal(out) && os.Getenv("CI") == "" {
		o.Terminal, _ = p.Stdin.(*os.File)
	}
	o.Reporter = output.NewReporter(out)
	o.Log = flags.NewLog(o.Reporter.Writer("setpoint"), flags.Brief, logLevel)
}

// programName returns the name to call this program by.
func programName() string {
	if name := os.Args[0]; filepath.Base(name) != name {
		return name
	}
	return "setpoint"
}

// callHooks lets the manager of a session call inline hooks, and exec hooks in the folders that the
// session runs, of the controllers in its files. What they print is shown at any log level.
func callHooks(o *dev.Options) {
	dirs, manifests, _ := project.Split(o.Paths)
	h := &hooks.Processes{ExecDirs: append(dirs, lists.Map(manifests, filepath.Dir)...),
		Log: flags.NewLog(o.Reporter.HookWriter("hook"), flags.Brief, "info")}
	h.Opener.WatchHelpers, o.Programs = true, &h.Opener
	o.NewManager = func(options manager.Options) (dev.Manager, error) {
		if err := h.AddTo(&options); err != nil {
			return nil, err
		}
		return manager.New(options)
	}
}
