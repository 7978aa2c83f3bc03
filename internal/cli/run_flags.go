package cli

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/dashboard"
	"github.com/setpoint-dev/setpoint/internal/dryrun"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// runFlags are what `setpoint run` can be told.
type runFlags struct {
	cluster       clusterFlags
	qps           float32
	burst         int
	namespace     string
	selector      string
	crds          *choice
	elect         *choice
	election      leader.Election
	workers       int
	resync        time.Duration
	apply         *choice
	fieldManager  string
	deletionGuard bool
	eventsQPS     float32
	eventsBurst   int
	address       string
	healthAddress string
	admission     manager.AdmissionOptions
	hooks         hookFlags
	inspect       inspectFlags
	dashboard     dashboard.Options
	profiling     bool
	logFormat     *choice
	logLevel      *choice

	// set are the flags of the command, former those of Metacontroller that
	// were given.
	set    *pflag.FlagSet
	legacy *legacyFlagSet
}

// Values of --leader-elect and --apply-strategy.
const (
	auto   = "auto"
	yes    = "true"
	no     = "false"
	merge  = "merge"
	server = "server-side"
)

// strategies are the values of --apply-strategy, as the host has them.
func strategies() map[string]string {
	return map[string]string{merge: string(plan.Merge), server: string(plan.ServerSide)}
}

func newRunFlags() *runFlags {
	return &runFlags{
		crds:      oneOf("install", "skip", "recreate"),
		elect:     oneOf(auto, yes, no),
		apply:     oneOf(merge, server).withAliases(legacyStrategies()),
		logFormat: oneOf("text", "json"),
		logLevel:  oneOf("info", "debug", "warn", "error"),
	}
}

// register adds the flags in the order in which help shows them.
func (f *runFlags) register(c *cobra.Command) {
	f.set = c.Flags()
	f.set.SortFlags = false
	f.cluster.register(c)
	f.set.StringVar(&f.namespace, "namespace", "", "`namespace` of Setpoint itself, for its lease and the like; $POD_NAMESPACE, else the pod's own, else default")
	f.set.StringVarP(&f.selector, "selector", "l", "", "`labels` of the controllers to run, such as team=web; all if empty")
	f.crds.flag(c, "crds", "", "install or upgrade the definitions of our kinds at the start, create them again too when they are deleted meanwhile, or leave that to others")
	f.registerElection(c)
	f.registerWork(c)
	f.registerLimits()
	f.registerServing(c)
	f.legacy = registerLegacy(f.set)
}

func (f *clusterFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "`file` that says how to reach the cluster")
	c.Flags().StringVar(&f.context, "context", "", "`name` of the context in the kubeconfig to use")
}

func (f *runFlags) registerElection(c *cobra.Command) {
	f.elect.flag(c, "leader-elect", "", "let one of several lead; auto does so inside a cluster")
	f.set.Lookup("leader-elect").NoOptDefVal = yes
	f.set.StringVar(&f.election.Name, "leader-elect-resource-name", "", "`name` of the lease by which they do; setpoint if empty, with a digest of --selector if there is one")
	f.set.StringVar(&f.election.Namespace, "leader-elect-resource-namespace", "", "`namespace` of that lease; the one of --namespace if empty")
	f.set.DurationVar(&f.election.LeaseDuration, "leader-elect-lease-duration", leader.DefaultLeaseDuration, "how long the others wait for a silent leader")
	f.set.DurationVar(&f.election.RenewDeadline, "leader-elect-renew-deadline", leader.DefaultRenewDeadline, "how long a leader goes on that cannot renew its lease")
	f.set.DurationVar(&f.election.RetryPeriod, "leader-elect-retry-period", leader.DefaultRetryPeriod, "how often leaders renew and the others look")
}

// splitElectArg takes the value of --leader-elect that stands apart from it, as help shows it;
// the flag alone means true. It returns the other arguments.
func (f *runFlags) splitElectArg(args []string) []string {
	if len(args) == 1 && f.set.Changed("leader-elect") && f.elect.value == yes && f.elect.Set(args[0]) == nil {
		return nil
	}
	return args
}

func (f *runFlags) registerWork(c *cobra.Command) {
	f.set.IntVar(&f.workers, "workers", 32, "how many objects of one controller are worked on at once")
	f.set.DurationVar(&f.resync, "resync-period", 0, "ask the hooks about every object at least this often; 0 leaves that to the controllers")
	f.apply.flag(c, "apply-strategy", "", "how controllers of metacontroller.k8s.io write children; those of setpoint.dev say it themselves")
	f.set.StringVar(&f.fieldManager, "field-manager", "metacontroller", "`name` of the manager whose fields those are, written server-side")
	f.set.BoolVar(&f.deletionGuard, "deletion-guard", true, "hold sudden mass deletions by controllers of metacontroller.k8s.io; those of setpoint.dev say it themselves")
}

func (f *runFlags) registerLimits() {
	f.set.Float32Var(&f.qps, "kube-api-qps", 0, "most requests to the API server in a second, on average; 0 leaves the limit to the server")
	f.set.IntVar(&f.burst, "kube-api-burst", 0, "most requests at once; twice the --kube-api-qps if 0")
	f.set.Float32Var(&f.eventsQPS, "events-qps", 0.05, "most Events about one object in a second, on average")
	f.set.IntVar(&f.eventsBurst, "events-burst", 25, "most Events about one object at once")
	f.hooks.register(f.set)
}

func (f *runFlags) registerServing(c *cobra.Command) {
	f.set.StringVar(&f.address, "address", ":8080", "`address` where /healthz, /readyz and /metrics are served; empty for nowhere")
	f.set.StringVar(&f.healthAddress, "health-address", "", "one more `address` for /healthz and /readyz alone")
	f.set.StringVar(&f.admission.Address, "admission-address", "", "`address` where the API server is answered before it stores objects; :9443 inside a cluster, else a free port on loopback")
	f.set.StringVar(&f.admission.Service, "admission-service", "", "`name` of the Service that leads there, in Setpoint's namespace; setpoint inside a cluster if empty")
	f.set.Int32Var(&f.admission.Port, "admission-service-port", 0, "`port` of that Service; 443 if 0")
	f.set.StringVar(&f.admission.URL, "admission-url", "", "`URL` by which the API server comes there otherwise, such as https://dev.example.com:9443")
	f.set.StringVar(&f.admission.ClientCAFile, "admission-client-ca-file", "", "`file` of the CAs, in PEM, of the certificate that the API server has to show there; it need not show any without one")
	f.set.DurationVar(&f.admission.CertificateLifetime, "admission-certificate-lifetime", 0, "how long the certificate for that is valid, which is renewed at two thirds of it; 90 days if 0. A CA is for eight times as long")
	f.inspect.register(f.set)
	registerDashboard(f.set, &f.dashboard)
	f.set.BoolVar(&f.profiling, "profiling", false, "serve Go's profiles at --address too, under /debug/pprof")
	f.logFormat.flag(c, "log-format", "", "how log lines are written")
	f.logLevel.flag(c, "log-level", "", "the least that is logged")
}

// check refuses what makes no sense, by the name of the flag.
func (f *runFlags) check() error {
	if f.workers < 1 {
		return fmt.Errorf("--workers must be at least 1, not %d", f.workers)
	}
	if _, err := labels.Parse(f.selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	if err := cmp.Or(f.inspect.check(), f.hooks.check()); err != nil {
		return err
	}
	for _, negative := range []struct {
		flag string
		is   bool
	}{
		{"kube-api-qps", f.qps < 0},
		{"kube-api-burst", f.burst < 0},
		{"events-qps", f.eventsQPS < 0},
		{"events-burst", f.eventsBurst < 0},
		{"resync-period", f.resync < 0},
		{"admission-service-port", f.admission.Port < 0},
		{"dashboard-session-lifetime", f.dashboard.SessionLifetime < 0},
		{"admission-certificate-lifetime", f.admission.CertificateLifetime < 0},
	} {
		if negative.is {
			return fmt.Errorf("--%s must not be negative", negative.flag)
		}
	}
	return nil
}

// options are what a host is told.
func (f *runFlags) options(cluster manager.Cluster) manager.Options {
	o := manager.Options{
		Config: cluster.Config, ClientQPS: f.qps, ClientBurst: f.burst,
		Namespace: cmp.Or(f.namespace, manager.PodNamespace()), Selector: f.selector, SkipCRDs: f.crds.value == "skip", RecreateCRDs: f.crds.value == "recreate",
		LeaderElection: f.election, ProcessLease: true,
		Workers: f.workers, Resync: f.resync, ApplyStrategy: strategies()[f.apply.value], FieldManager: f.fieldManager, NoDeletionGuard: !f.deletionGuard,
		EventsQPS: f.eventsQPS, EventsBurst: f.eventsBurst, HookLimits: f.hooks.limits(),
		Address: f.address, HealthAddress: f.healthAddress, Profiling: f.profiling,
		InspectAddress: cluster.InspectAddress(f.inspect.address), InspectDir: cluster.ProcessDir,
		History: f.inspect.history(), Plan: dryrun.ForObject,
		Dashboard: &f.dashboard,
		Version:   readVersion().Version,
	}
	o.Admission = f.admission.WithClusterDefaults(cluster.InCluster, "setpoint")
	o.LeaderElection.Enabled = f.elect.value == yes || f.elect.value == auto && cluster.InCluster
	return o
}
