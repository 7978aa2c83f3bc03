package run

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/dashboard"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/hooks"
	"github.com/setpoint-dev/setpoint/internal/cli/operators"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dryrun"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/manager"
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
	hookProcesses hooks.Processes
	dashboard     dashboard.Options
	operator      operatorFlags

	// set are the flags of the command.
	set *pflag.FlagSet
}

func newRunFlags() *runFlags {
	return &runFlags{
		crds:  flags.OneOf("install", "skip"),
		apply: hooks.NewApplyStrategy(),
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
	shared.VisitAll(func(each *flag.Flag) {
		added := pflag.PFlagFromGoFlag(each)
		if each.Name == "namespaces" {
			added.Shorthand = "n" // As kubectl and kopf have it.
		}
		f.set.AddFlag(added)
	})
	command.CompleteWords(c, "leader-elect", f.LeaderElect.Allowed)
	command.CompleteWords(c, "log-format", f.LogFormat.Allowed)
	command.CompleteWords(c, "log-level", f.LogLevel.Allowed)
	f.operator.register(c)
	f.registerControllers(c)
	f.hooks.register(f.set)
	f.hookProcesses.Register(f.set)
	registerLegacy(f.set)
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
	command.AddChoice(c, f.crds, "crds", "",
		"CRDs of Setpoint: install or upgrade them at startup, or skip them")
	f.set.DurationVar(&f.resync, "resync-period", 0, "interval of resyncing all objects; 0 leaves it to the controllers")
	command.AddChoice(c, f.apply, "apply-strategy", "", "apply strategy of controllers of metacontroller.k8s.io")
	f.set.StringVar(&f.fieldManager, "field-manager", "metacontroller", "`name` of their field manager for server-side apply")
	f.set.StringVar(&f.account, "default-service-account", "", "`[NAMESPACE/]NAME` of the ServiceAccount as which controllers act that "+
		"name none; without a namespace, the one in the namespace of each object")
	f.set.BoolVar(&f.deletionGuard, "deletion-guard", true, "hold sudden mass deletions by controllers of metacontroller.k8s.io")
	f.set.Float32Var(&f.eventsQPS, "events-qps", 0.05, "maximum events per second for one object")
	f.set.IntVar(&f.eventsBurst, "events-burst", 25, "maximum burst of events for one object")
}

// check validates the flags. Its errors name the flag.
func (f *runFlags) check() error {
	if err := cmp.Or(command.CheckSelector(f.selector), f.Check(), f.hooks.check()); err != nil {
		return err
	}
	if _, err := identity.Parse(f.account); err != nil {
		return fmt.Errorf("--default-service-account: %w", err)
	}
	for name, negative := range map[string]bool{
		"events-qps": f.eventsQPS < 0, "events-burst": f.eventsBurst < 0,
		"resync-period": f.resync < 0, "dashboard-session-lifetime": f.dashboard.SessionLifetime < 0,
	} {
		if negative {
			return fmt.Errorf("--%s must not be negative", name)
		}
	}
	return nil
}

// options returns the options of the manager.
func (f *runFlags) options(cluster manager.Cluster) manager.Options {
	size, _ := manager.ParseBytes(f.hooks.size)
	o := manager.Options{
		Settings: compile.Settings{
			Namespace: cmp.Or(f.Namespace, manager.PodNamespace()), Namespaces: f.Namespaces, Workers: f.Workers, Resync: f.resync,
			Limits:        call.Limits{MaxResponseBytes: int64(size), MaxValues: f.hooks.values, MaxErrorBytes: cmp.Or(f.hooks.quoted, -1)},
			ApplyStrategy: hooks.ApplyStrategy(f.apply), FieldManager: f.fieldManager, DisableDeletionGuard: !f.deletionGuard,
			Expressions: expression.Compile,
		},
		Config: cluster.Config, ClientQPS: float32(f.QPS), ClientBurst: f.Burst,
		Selector: f.selector, SkipCRDs: f.crds.Value == "skip", LeaderElection: f.LeaderElection, ProcessLease: true,
		EventsQPS: f.eventsQPS, EventsBurst: f.eventsBurst,
		Address: f.Address, HealthAddress: f.HealthAddress, HealthPath: f.operator.healthPath, Profiling: f.Profiling,
		InspectAddress: cluster.InspectAddress(f.InspectAddress), InspectDir: cluster.ProcessDir,
		History: f.History(), Recording: f.Recording(), Traces: f.Traces(), Plan: dryrun.ForObject,
		Dashboard: &f.dashboard,
		Version:   command.ReadVersion().Version,
	}
	o.DefaultAccount, _ = identity.Parse(f.account) // check has parsed it.
	o.Admission = f.Admission.WithClusterDefaults(cluster.InCluster, "setpoint")
	o.LeaderElection.Enabled = f.Elects(cluster.InCluster)
	return o
}

// hookFlags limit hook responses.
type hookFlags struct {
	size           string
	values, quoted int
}

func (f *hookFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.size, "hook-response-max-size", "32Mi", "maximum `bytes` of a hook response")
	set.IntVar(&f.values, "hook-response-max-values", call.DefaultMaxValues,
		"maximum JSON values in a hook response: objects, lists and scalars at all depths")
	set.IntVar(&f.quoted, "hook-error-max-size", call.DefaultMaxErrorBytes,
		"maximum `bytes` of an error response in logs, events and conditions; 0 omits it")
}

func (f *hookFlags) check() error {
	size, err := manager.ParseBytes(f.size)
	switch {
	case err != nil:
		return fmt.Errorf("--hook-response-max-size %w", err)
	case size == 0:
		return errors.New("--hook-response-max-size must be greater than zero")
	case f.values < 1:
		return fmt.Errorf("--hook-response-max-values must be greater than zero, not %d", f.values)
	case f.quoted < 0 || f.quoted > maxQuoted:
		return fmt.Errorf("--hook-error-max-size must be from 0 to %d, not %d", maxQuoted, f.quoted)
	}
	return nil
}

// maxQuoted is about the maximum length of an event message.
const maxQuoted = 1000

// operatorFlags are the flags of `setpoint run` for operators in Python and other processes
// that declare their controllers. Most are those of `kopf run`.
type operatorFlags struct {
	operators.Source
	everywhere      bool
	liveness        string
	verbose, debug  bool
	quiet           bool
	standalone, dev bool
	peering         string
	priority        int
	// healthPath is the path of --liveness.
	healthPath string
	// stopOnEOF stops when standard input ends.
	stopOnEOF bool
}

func (f *operatorFlags) register(c *cobra.Command) {
	f.Register(c.Flags())
	set := c.Flags()
	set.StringVar(&f.Name, "name", "", "with --python: `name` of the operator, for its records and finalizers on objects and its Lease "+
		"(default: that of the first file)")
	set.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "with an operator: all namespaces, the default; excludes --namespaces")
	set.StringVarP(&f.liveness, "liveness", "L", "", "with an operator: `URL` to serve its health at, such as http://0.0.0.0:8080/healthz")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "with an operator: --log-level=debug, also for its own logs")
	set.BoolVarP(&f.debug, "debug", "d", false, "with an operator: --verbose, and logs of libraries")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "with an operator: --log-level=warn, also for its own logs")
	set.BoolVar(&f.stopOnEOF, "stop-on-stdin-eof", false, "with --operator: stop when standard input ends, such as a pipe from the "+
		"program that started Setpoint, however that ends")
	set.BoolVar(&f.standalone, "standalone", false, "with an operator: --leader-elect=false")
	set.StringVarP(&f.peering, "peering", "P", "", "with an operator: elect a leader by the Lease of this `name`")
	set.IntVarP(&f.priority, "priority", "p", 0, "with an operator: no effect; a Lease has no priorities")
	set.BoolVar(&f.dev, "dev", false, "with an operator: no effect; a Lease has no priorities")
}

// logFlags returns the flags of the process of the operator.
func (f *operatorFlags) logFlags(format string) []string {
	var all []string
	switch {
	case f.debug:
		all = append(all, "--debug")
	case f.verbose:
		all = append(all, "--verbose")
	case f.quiet:
		all = append(all, "--quiet")
	}
	switch format {
	case "full", "plain", "json":
		all = append(all, "--log-format", format)
	}
	return all
}
