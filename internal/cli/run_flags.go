package cli

import (
	"cmp"
	"flag"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/dashboard"
	"github.com/setpoint-dev/setpoint/internal/dryrun"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// runFlags are the flags of `setpoint run`.
type runFlags struct {
	flags.Flags
	selector      string
	crds          *flags.Choice
	resync        time.Duration
	apply         *flags.Choice
	fieldManager  string
	deletionGuard bool
	account       string
	eventsQPS     float32
	eventsBurst   int
	hooks         hookFlags
	hookProcesses hookProcesses
	dashboard     dashboard.Options
	operator      operatorFlags

	// set are the flags of the command, legacy those of Metacontroller.
	set    *pflag.FlagSet
	legacy *legacyFlagSet
}

// Values of --leader-elect and --apply-strategy.
const (
	yes    = "true"
	merge  = "merge"
	server = "server-side"
)

// strategies are the values of --apply-strategy, as the manager names them.
func strategies() map[string]string {
	return map[string]string{merge: string(plan.Merge), server: string(plan.ServerSide)}
}

func newRunFlags() *runFlags {
	return &runFlags{
		crds:  flags.OneOf("install", "skip", "recreate"),
		apply: flags.OneOf(merge, server).WithAliases(legacyStrategies()),
	}
}

// register adds the shared flags, then those of `setpoint run` alone.
func (f *runFlags) register(c *cobra.Command) {
	f.set = c.Flags()
	f.set.SortFlags = false
	shared := flag.NewFlagSet("run", flag.ContinueOnError)
	f.Register(shared, flags.Defaults{
		Program: "Setpoint", ServiceName: "setpoint",
		LeaseName: "setpoint, with a digest of --selector if there is one",
	})
	f.dashboard.RegisterFlags(shared)
	f.LogFormat.WithAliases(map[string]string{"full": "text", "plain": "text"})
	shared.VisitAll(func(each *flag.Flag) { f.set.AddFlag(withShorthand(pflag.PFlagFromGoFlag(each))) })
	completeChoice(c, "leader-elect", f.LeaderElect)
	completeChoice(c, "log-format", f.LogFormat)
	completeChoice(c, "log-level", f.LogLevel)
	f.operator.register(c)
	f.registerControllers(c)
	f.hooks.register(f.set)
	f.hookProcesses.register(f.set)
	f.legacy = registerLegacy(f.set)
}

// withShorthand adds the letter that kubectl and kopf have.
func withShorthand(each *pflag.Flag) *pflag.Flag {
	if each.Name == "namespaces" {
		each.Shorthand = "n"
	}
	return each
}

func (f *clusterFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "`file` with the cluster to use")
	c.Flags().StringVar(&f.context, "context", "", "`name` of the kubeconfig context to use")
	contexts := func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return withPrefix(word, manager.Contexts(f.kubeconfig)), cobra.ShellCompDirectiveNoFileComp
	}
	_ = c.RegisterFlagCompletionFunc("context", contexts) // It fails only for an undefined flag.
}

// splitElectArg sets --leader-elect from a separate argument, as help shows it; the flag alone
// means true. It returns the other arguments.
func (f *runFlags) splitElectArg(args []string) []string {
	if len(args) == 1 && f.set.Changed("leader-elect") && f.LeaderElect.Value == yes && f.LeaderElect.Set(args[0]) == nil {
		return nil
	}
	return args
}

func (f *runFlags) registerControllers(c *cobra.Command) {
	f.set.StringVarP(&f.selector, "selector", "l", "", "label `selector` of the controllers to run, such as team=web")
	addChoice(c, f.crds, "crds", "", "CRDs of Setpoint: install or upgrade them at startup, also recreate deleted ones, or skip them")
	f.set.DurationVar(&f.resync, "resync-period", 0, "interval of resyncing all objects; 0 leaves it to the controllers")
	addChoice(c, f.apply, "apply-strategy", "", "apply strategy of controllers of metacontroller.k8s.io")
	f.set.StringVar(&f.fieldManager, "field-manager", "metacontroller", "`name` of their field manager for server-side apply")
	f.set.StringVar(&f.account, "default-service-account", "", "`[NAMESPACE/]NAME` of the ServiceAccount as which controllers act that "+
		"name none; without a namespace, the one in the namespace of each object")
	f.set.BoolVar(&f.deletionGuard, "deletion-guard", true, "hold sudden mass deletions by controllers of metacontroller.k8s.io")
	f.set.Float32Var(&f.eventsQPS, "events-qps", 0.05, "maximum events per second for one object")
	f.set.IntVar(&f.eventsBurst, "events-burst", 25, "maximum burst of events for one object")
}

// check validates the flags. Its errors name the flag.
func (f *runFlags) check() error {
	if err := cmp.Or(checkSelector(f.selector), f.Check(), f.hooks.check()); err != nil {
		return err
	}
	if _, err := identity.Parse(f.account); err != nil {
		return fmt.Errorf("--default-service-account: %w", err)
	}
	for _, negative := range []struct {
		flag string
		is   bool
	}{
		{"events-qps", f.eventsQPS < 0},
		{"events-burst", f.eventsBurst < 0},
		{"resync-period", f.resync < 0},
		{"dashboard-session-lifetime", f.dashboard.SessionLifetime < 0},
	} {
		if negative.is {
			return fmt.Errorf("--%s must not be negative", negative.flag)
		}
	}
	return nil
}

// checkSelector validates --selector.
func checkSelector(selector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	return nil
}

// options returns the options of the manager.
func (f *runFlags) options(cluster manager.Cluster) manager.Options {
	o := manager.Options{
		Config: cluster.Config, ClientQPS: float32(f.QPS), ClientBurst: f.Burst,
		Namespace: cmp.Or(f.Namespace, manager.PodNamespace()), Selector: f.selector, SkipCRDs: f.crds.Value == "skip",
		RecreateCRDs: f.crds.Value == "recreate",
		Namespaces:   f.Namespaces, LeaderElection: f.LeaderElection, ProcessLease: true,
		Workers: f.Workers, Resync: f.resync, ApplyStrategy: strategies()[f.apply.Value], FieldManager: f.fieldManager,
		NoDeletionGuard: !f.deletionGuard,
		EventsQPS:       f.eventsQPS, EventsBurst: f.eventsBurst, HookLimits: f.hooks.limits(),
		Address: f.Address, HealthAddress: f.HealthAddress, HealthPath: f.operator.healthPath, Profiling: f.Profiling,
		InspectAddress: cluster.InspectAddress(f.InspectAddress), InspectDir: cluster.ProcessDir,
		History: f.History(), Recording: f.Recording(), Traces: f.Traces(), Plan: dryrun.ForObject, Expressions: expression.Compile,
		Dashboard: &f.dashboard,
		Version:   readVersion().Version,
	}
	o.DefaultAccount, _ = identity.Parse(f.account) // check has parsed it.
	o.Admission = f.Admission.WithClusterDefaults(cluster.InCluster, "setpoint")
	o.LeaderElection.Enabled = f.Elects(cluster.InCluster)
	return o
}
