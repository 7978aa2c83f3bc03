package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/dev"
)

// devFlags are what `setpoint dev` can be told.
type devFlags struct {
	dataDir          string
	kubeconfig       string
	dashboardAddress string
	processLogs      string
	// readyTimeout is how long the command waits for the processes.
	readyTimeout time.Duration
	logLevel     *choice
	// clusterOnly runs no controllers.
	clusterOnly bool
}

func (p *program) devCommand() *cobra.Command {
	f := &devFlags{logLevel: oneOf("warn", "debug", "info", "error")}
	c := &cobra.Command{
		Use:   "dev [DIR…] [-- COMMAND…]",
		Short: "Boot a cluster and develop a controller in it",
		Long: `Boot a real Kubernetes control plane on this machine, run the controllers in it,
and keep it in step with the files of each DIR, as its setpoint.yaml says:

  apply: [crd.yaml, controller.yaml, example.yaml]   # files, or folders of them
  processes:
  - command: [python3, -u, sync.py]
    env: {PORT: "{port}"}               # a free port is chosen
    service: my-hook.my-namespace       # calls to this host go to the process

A process may be told the port of another one of the file as {port:NAME}. One
with "ready: /path" is awaited until that answers. Programs are compiled first,
which counts against no limit. docs/setpoint-yaml.md has all fields.

A changed manifest is applied again; a changed hook is restarted, and what it
decides about is looked at again at once.

With COMMAND, that is run when everything is ready, with KUBECONFIG set, and
SETPOINT as the path of this program; then everything stops, and the exit code
is the command's. Ctrl-C stops everything; a second one does so by force.`,
		Example: `  setpoint dev                                        # a cluster, nothing in it
  setpoint dev examples/immortalcontainer             # with an example
  setpoint dev --data-dir ./cluster                   # kept between runs
  setpoint dev examples/immortalcontainer -- make test`,
		RunE: func(c *cobra.Command, args []string) error {
			dirs, command := args, []string(nil)
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				dirs, command = args[:dash], args[dash:]
			}
			return p.dev(c.Context(), f, dirs, command)
		},
	}
	c.Flags().StringVar(&f.dataDir, "data-dir", "", "`folder` that keeps the cluster between runs; a throw-away one if empty")
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "`file` to write the kubeconfig to; in the data directory if empty")
	c.Flags().StringVar(&f.dashboardAddress, "ui-address", dev.AnyDashboardAddress, "loopback `address` of the window, the pages in which one sees what controllers do; 127.0.0.1:0 is port 7400, or another if that is taken; empty for nowhere")
	c.Flags().StringVar(&f.processLogs, "process-logs", "", "`folder` for what the processes write, each to NAME.log, instead of the terminal; the last lines of one that ends by itself are shown")
	c.Flags().DurationVar(&f.readyTimeout, "ready-timeout", 10*time.Minute, "how long COMMAND waits for the processes to answer once they are compiled; 0 for no limit")
	c.Flags().BoolVar(&f.clusterOnly, "cluster-only", false, "run no controllers in the cluster; 'setpoint run' or another program does")
	f.logLevel.flag(c, "log-level", "", "the least that is logged of the controllers' work")
	return c
}

func (p *program) dev(ctx context.Context, f *devFlags, dirs, command []string) error {
	if p.Boot == nil {
		return errorWithHint{
			errors.New("this setpoint has no control plane in it"),
			"use the full one (`make build` leaves it at bin/setpoint), or `setpoint run` with a cluster you have",
		}
	}
	o := dev.Options{
		Dirs: dirs, Command: command, ReadyTimeout: f.readyTimeout, ProcessLogs: f.processLogs, DataDir: f.dataDir, Kubeconfig: f.kubeconfig,
		DashboardAddress: f.dashboardAddress, Boot: p.Boot, Program: programName(), Version: readVersion().Version, Abort: abort,
	}
	if f.clusterOnly {
		o.NewManager, o.DashboardAddress = dev.NewIdleManager, ""
	}
	var err error
	if o.Executable, err = os.Executable(); err != nil {
		return err
	}
	p.connect(&o, f.logLevel.value)
	signals, stop := catchSignals()
	defer stop()
	o.Signals = signals
	p.code, err = dev.Run(ctx, o)
	return err
}

// connect ties a session to the streams of this process. Stdout is the
// command's alone, if there is one.
func (p *program) connect(o *dev.Options, logLevel string) {
	out := p.stdout
	if len(o.Command) > 0 {
		out = p.stderr
	}
	o.Interactive = isTerminal(p.stdin)
	o.Stdin, o.Stdout, o.Stderr = p.stdin, p.stdout, p.stderr
	o.Reporter = newReporter(out)
	o.Log = newLog(o.Reporter.Writer("setpoint"), "brief", logLevel)
}

// programName is how this program can be called again.
func programName() string {
	if name := os.Args[0]; filepath.Base(name) != name {
		return name
	}
	return "setpoint"
}
