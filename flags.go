package setpoint

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
)

// runFlags are the flags of run. They mean the same as those of `setpoint run`.
type runFlags struct {
	o                                Options
	namespaces, elect, level, format string
	history                          string
	qps                              float64
}

// electionFlag is the flag --leader-elect, which needs no value.
type electionFlag struct{ value *string }

func (e electionFlag) String() string {
	if e.value == nil || *e.value == "" {
		return "auto"
	}
	return *e.value
}

// Set implements flag.Value.
func (e electionFlag) Set(text string) error {
	if !slices.Contains([]string{"auto", "true", "false"}, text) {
		return errors.New("must be auto, true or false")
	}
	*e.value = text
	return nil
}

// IsBoolFlag lets --leader-elect mean --leader-elect=true.
func (electionFlag) IsBoolFlag() bool { return true }

func (f *runFlags) parse(a *App, args []string, stdout io.Writer) error {
	set := flag.NewFlagSet(a.name, flag.ContinueOnError)
	f.register(a, set)
	return a.parseFlags(set, args, stdout, func() {
		fmt.Fprintf(stdout, "%[1]s [run] [flags]       run the controllers until SIGTERM\n%[1]s rbac [flags]        print the permissions that they need, as manifests\n%[1]s uninstall [flags]   remove the webhook configurations\n\n", program())
		fmt.Fprint(stdout, "Exit codes: 0 done, 1 failed, 2 wrong usage.\n\nFlags of run:\n")
		set.PrintDefaults()
	})
}

func (f *runFlags) register(a *App, set *flag.FlagSet) {
	o := &f.o
	set.StringVar(&o.Kubeconfig, "kubeconfig", "", "`file` that says how to reach the cluster; else $KUBECONFIG, the cluster this program runs in, or ~/.kube/config")
	set.StringVar(&o.Context, "context", "", "`name` of the context in the kubeconfig to use")
	set.StringVar(&f.namespaces, "namespaces", "", "`names` of the namespaces whose objects are handled, with commas between; all if empty")
	set.StringVar(&o.Namespace, "namespace", "", "`namespace` of the program itself, for its lease and the like; $POD_NAMESPACE, else the pod's own, else default")
	set.IntVar(&o.Workers, "workers", 32, "how many objects of one controller are worked on at once")
	set.BoolVar(&o.AllowBreakingCRDs, "allow-breaking-crds", false, "upgrade definitions also where that could break what is stored, or who uses it")
	set.BoolVar(&o.RecreateCRDs, "recreate-crds", false, "create definitions again, at once, that are deleted while the program runs")
	set.Float64Var(&f.qps, "kube-api-qps", 0, "most requests to the API server in a second, on average; 0 leaves the limit to the server")
	set.IntVar(&o.ClientBurst, "kube-api-burst", 0, "most requests at once; twice the --kube-api-qps if 0")
	set.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", 10*time.Second, "how long handlers and daemons have to return when the program is told to stop")
	set.StringVar(&o.Address, "address", ":8080", "`address` where /healthz, /readyz and /metrics are served; empty for nowhere")
	set.StringVar(&o.HealthAddress, "health-address", "", "one more `address` for /healthz and /readyz alone")
	set.StringVar(&o.Admission.Address, "admission-address", "", "`address` where the API server is answered before it stores objects; :9443 inside a cluster, else a free port on loopback")
	set.StringVar(&o.Admission.Service, "admission-service", "", "`name` of the Service that leads there, in the program's namespace; the app's name inside a cluster if empty")
	set.Func("admission-service-port", "`port` of that Service; 443 if it is not said", func(text string) error {
		port, err := strconv.ParseUint(text, 10, 16)
		o.Admission.Port = int32(port)
		return err
	})
	set.StringVar(&o.Admission.URL, "admission-url", "", "`URL` by which the API server comes there otherwise, such as https://dev.example.com:9443")
	set.StringVar(&o.Admission.ClientCAFile, "admission-client-ca-file", "", "`file` of the CAs, in PEM, of the certificate that the API server has to show there; it need not show any without one")
	set.DurationVar(&o.Admission.CertificateLifetime, "admission-certificate-lifetime", 0, "how long the certificate for that is valid, which is renewed at two thirds of it; 90 days if 0. A CA is for eight times as long")
	set.StringVar(&o.InspectAddress, "inspect-address", manager.InspectAuto, "`address` of loopback where setpoint get and the like read; auto is 127.0.0.1:8082 inside a cluster, else a free port where the kubeconfig is one of setpoint dev; empty for nowhere")
	set.StringVar(&f.history, "history-size", "32Mi", "`bytes` that may be kept of what was done lately, and why; 0 keeps nothing")
	set.BoolVar(&o.Profiling, "profiling", false, "serve Go's profiles at --address too, under /debug/pprof")
	set.StringVar(&f.format, "log-format", "text", "how log lines are written, text or json")
	set.StringVar(&f.level, "log-level", "info", "the least that is logged: debug, info, warn or error")
	f.registerElection(a, set)
	if a.dashboard != nil {
		a.dashboard.RegisterFlags(set)
	}
}

func (f *runFlags) registerElection(a *App, set *flag.FlagSet) {
	e := &f.o.LeaderElection
	set.Var(electionFlag{&f.elect}, "leader-elect", "let one of several lead: true, false, or auto, which does so inside a cluster")
	set.StringVar(&e.Name, "leader-elect-resource-name", a.name, "`name` of the lease by which they do")
	set.StringVar(&e.Namespace, "leader-elect-resource-namespace", "", "`namespace` of that lease; the one of --namespace if empty")
	set.DurationVar(&e.LeaseDuration, "leader-elect-lease-duration", leader.DefaultLeaseDuration, "how long the others wait for a silent leader")
	set.DurationVar(&e.RenewDeadline, "leader-elect-renew-deadline", leader.DefaultRenewDeadline, "how long a leader goes on that cannot renew its lease")
	set.DurationVar(&e.RetryPeriod, "leader-elect-retry-period", leader.DefaultRetryPeriod, "how often leaders renew and the others look")
}

func (f *runFlags) options(stderr io.Writer) (Options, error) {
	o := f.o
	o.Namespaces, o.ClientQPS = splitList(f.namespaces), float32(f.qps)
	switch {
	case o.Workers < 1:
		return o, newUsageError(fmt.Errorf("--workers must be at least 1, not %d", o.Workers))
	case o.ShutdownTimeout <= 0:
		return o, newUsageError(fmt.Errorf("--shutdown-timeout must be greater than zero, not %s", o.ShutdownTimeout))
	case f.qps < 0 || o.ClientBurst < 0:
		return o, newUsageError(errors.New("--kube-api-qps and --kube-api-burst must not be negative"))
	}
	kept, err := manager.ParseHistory(f.history)
	if err != nil {
		return o, newUsageError(fmt.Errorf("--history-size %w", err))
	}
	if o.HistorySize = kept.MaxBytes; kept.Off {
		o.HistorySize = -1
	}
	if o.Log, err = newLog(stderr, f.format, f.level); err != nil {
		return o, err
	}
	o.LeaderElection.Enabled, err = electionEnabled(f.elect, o)
	return o, err
}
