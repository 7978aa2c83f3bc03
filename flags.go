package setpoint

import (
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/setpoint-dev/setpoint/internal/flags"
)

// runFlags are the flags of run. Those that `setpoint run` has too are declared once.
type runFlags struct {
	flags.Flags
	o Options
}

func (f *runFlags) parse(a *App, args []string, stdout io.Writer) error {
	set := flag.NewFlagSet(a.name, flag.ContinueOnError)
	f.register(a, set)
	return a.parseFlags(set, args, stdout, func() {
		fmt.Fprintf(stdout, "%[1]s [run] [flags]       run the controllers until SIGINT or SIGTERM\n%[1]s rbac [flags]        print the "+
			"required RBAC rules as manifests\n%[1]s uninstall [flags]   remove what the program left in the cluster\n\n", program())
		fmt.Fprint(stdout, "Exit codes: 0 success, 1 failure, 2 wrong usage.\n\nFlags of run:\n")
		set.PrintDefaults()
	})
}

func (f *runFlags) register(a *App, set *flag.FlagSet) {
	o := &f.o
	f.Register(set, flags.Defaults{Program: "the program", LeaseName: a.name, ServiceName: a.name})
	set.BoolVar(&o.AllowBreakingCRDs, "allow-breaking-crds", false, "upgrade CRDs even if that can break stored objects or clients")
	set.BoolVar(&o.RecreateCRDs, "recreate-crds", false, "recreate CRDs that are deleted while the program runs")
	set.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", 10*time.Second, "how long handlers and daemons have to return at shutdown")
	if a.flagsOfDashboard != nil {
		a.flagsOfDashboard(set)
	}
}

// options returns the options that the flags set.
func (f *runFlags) options(stderr io.Writer) (Options, error) {
	if err := f.Check(); err != nil {
		return f.o, newUsageError(err)
	}
	o := f.o
	if o.ShutdownTimeout <= 0 {
		return o, newUsageError(fmt.Errorf("--shutdown-timeout must be greater than zero, not %s", o.ShutdownTimeout))
	}
	o.Kubeconfig, o.Context, o.Namespace, o.Namespaces = f.Kubeconfig, f.Context, f.Namespace, f.Namespaces
	o.Workers, o.ClientQPS, o.ClientBurst = f.Workers, float32(f.QPS), f.Burst
	o.Address, o.HealthAddress, o.InspectAddress, o.Profiling = f.Address, f.HealthAddress, f.InspectAddress, f.Profiling
	o.Admission, o.LeaderElection = Admission(f.Admission), LeaderElection(f.LeaderElection)
	history := f.History()
	if o.HistorySize = history.MaxBytes; history.Off {
		o.HistorySize = -1
	}
	o.RecordFile, o.RecordMaxSize = f.Recording().File, f.Recording().MaxBytes
	o.TraceAnnotations = f.Traces() != nil && f.Traces().Annotate
	o.Log = flags.NewLog(stderr, f.LogFormat.Value, f.LogLevel.Value)
	o.LeaderElection.Enabled = f.Elects(runsInCluster(o))
	return o, nil
}
