package setpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dryrun"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// Options say how an app is run. The zero value runs it against the cluster that
// the environment names.
type Options struct {
	// Kubeconfig is a file that says how to reach the cluster, and Context one of
	// its contexts. If both are empty, it is the cluster of $KUBECONFIG, else the
	// one the program runs in, else the current one of ~/.kube/config.
	Kubeconfig, Context string
	// Namespaces are those whose objects are handled, and in which their handlers
	// may write; all if there is none. Objects that live in no namespace are handled
	// in any case, and their handlers may write everywhere.
	Namespaces []string
	// Namespace is the program's own, for the lease of the leader and the like; the
	// pod's, or "default", if empty.
	Namespace string
	// Admission says how the API server comes to this program before it stores
	// objects, for Mutate and Validate.
	Admission Admission
	// LeaderElection says which of several replicas works. The zero value elects
	// nobody: this one does.
	LeaderElection LeaderElection
	// Workers is how many objects of one controller are worked on at once; 32 if
	// zero.
	Workers int
	// AllowBreakingCRDs allows upgrades of CRDs that could break what is stored,
	// or who uses it.
	AllowBreakingCRDs bool
	// RecreateCRDs creates a CRD again, at once, that is deleted while the program
	// runs. Without, it stays deleted until the program starts again, /readyz says so, and
	// an event at the CRD does.
	RecreateCRDs bool
	// ClientQPS and ClientBurst bound the requests to the API server: so many a
	// second on average, so many at once. Without, there is no bound: the server has
	// priority and fairness.
	ClientQPS   float32
	ClientBurst int
	// ShutdownTimeout is how long Run waits, when its context has ended, for handlers
	// and daemons to return: 10s if zero. Then the log names those that do not, and Run
	// returns an error. What they still want written is not.
	ShutdownTimeout time.Duration
	// Address is where /healthz, /readyz and /metrics are served, such as ":8080";
	// "" serves none. HealthAddress is one more for the first two.
	Address, HealthAddress string
	// InspectAddress is where setpoint get, setpoint why and the like read what this
	// program knows of its controllers: an address of loopback, such as
	// "127.0.0.1:8082", or "auto", which is that one inside a cluster, and a free port
	// under setpoint dev; "" for nowhere.
	InspectAddress string
	// HistorySize is how many bytes may be kept of what was done lately, and why: 32 MiB
	// if zero; nothing is kept if it is less.
	HistorySize int
	// Version is the program's, which the API server is told with the app's name; as
	// the go command has stamped it if empty.
	Version string
	// Profiling adds Go's profiles to Address, under /debug/pprof.
	Profiling bool
	// Log is slog.Default if nil.
	Log *slog.Logger
	// Ready, if set, is called once, when the program's controllers are at work, or
	// stand by.
	Ready func()
}

// LeaderElection says which of several replicas of a program works. The others
// stand by with their caches filled. After a clean stop the next one takes over
// within 2.2 RetryPeriods, after a crash within a LeaseDuration and 4.4
// RetryPeriods.
type LeaderElection struct {
	// Enabled has them elect one.
	Enabled bool
	// Name and Namespace of the Lease by which they do: the app's name and
	// Options.Namespace if empty.
	Name, Namespace string
	// Identity tells this replica from the others; the name of the machine and a
	// random text if empty.
	Identity string
	// LeaseDuration is how long the others wait for a leader that is silent (10s if
	// zero), RenewDeadline how long a leader goes on that cannot renew its lease
	// (7s), and RetryPeriod how often leaders renew and the others look (1s).
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Admission says how the API server comes to a program before it stores objects. The
// zero value is by the Service that has the app's name, for a program that runs inside
// the cluster; by loopback, for one that runs beside the API server, as under
// `setpoint dev`.
type Admission struct {
	// Address is where it is answered, such as ":9443", which is meant inside a cluster;
	// elsewhere it is a free port on loopback.
	Address string
	// Service is the name of the Service that leads to that address, in
	// Options.Namespace, and Port the Service's, 443 if zero. All replicas share a
	// certificate, in a Secret of the name Service-admission.
	Service string
	Port    int32
	// URL is by which the API server comes to the address otherwise, such as
	// "https://dev.example.com:9443". It goes before a Service.
	URL string
	// ClientCAFile has the CAs, in PEM form, of the certificate that the API server
	// shows, which is required then; "" requires none.
	ClientCAFile string
	// CertificateLifetime is how long a serving certificate is valid, 90 days if zero;
	// it is renewed at two thirds of that. A CA is valid for eight times as long.
	CertificateLifetime time.Duration
}

// stopTimeout is how long OnStop has.
const stopTimeout = 10 * time.Second

// Run runs the app until the context ends, and returns nil when all has come to rest
// then. An error says why it could not start: all that is wrong with the app, or with
// the way to the cluster; or that something does not come to rest.
func (a *App) Run(ctx context.Context, o Options) error {
	a.log, a.running = o.Log, true
	if err := a.validate(o); err != nil {
		return err
	}
	cluster, err := findCluster(o)
	if err != nil {
		return err
	}
	managerOpts := a.managerOptions(o, cluster.InCluster)
	managerOpts.Config = cluster.Config
	managerOpts.InspectAddress, managerOpts.InspectDir = cluster.InspectAddress(o.InspectAddress), cluster.ProcessDir
	h, err := manager.New(managerOpts)
	if err != nil {
		return err
	}
	return a.runLifecycle(ctx, func() error {
		go callWhenReady(ctx, h.Ready(), o.Ready)
		return h.Run(ctx)
	})
}

// findCluster finds the one that the options name.
func findCluster(o Options) (manager.Cluster, error) {
	cluster, err := manager.FindCluster(o.Kubeconfig, o.Context)
	if errors.Is(err, manager.ErrNoCluster) {
		return cluster, fmt.Errorf("%w: name one with a kubeconfig, or start one with `setpoint dev`", err)
	}
	return cluster, err
}

// validate says what is wrong with the app and its options, all at once.
func (a *App) validate(o Options) error {
	problems := a.check()
	for _, p := range a.registrations {
		problems = errors.Join(problems, p.controller().limitNamespaces(o.Namespaces))
	}
	if problems != nil {
		return fmt.Errorf("the app %s cannot run:\n%w", a.name, problems)
	}
	return nil
}

// managerOptions are the host's options, but for the cluster, which it is in or not.
func (a *App) managerOptions(o Options, inside bool) manager.Options {
	election := manager.LeaderElection(o.LeaderElection)
	election.Name = cmp.Or(election.Name, a.name)
	managerOpts := manager.Options{
		Name: a.name, Version: cmp.Or(o.Version, buildVersion()), ClientQPS: o.ClientQPS, ClientBurst: o.ClientBurst,
		CRDs: a.crds.texts, AllowBreakingCRDs: o.AllowBreakingCRDs, RecreateCRDs: o.RecreateCRDs,
		Namespace: cmp.Or(o.Namespace, manager.PodNamespace()), LeaderElection: election, ProcessLease: true, WatchNamespaces: o.Namespaces, Workers: o.Workers,
		Dashboard:       a.dashboard,
		Admission:       manager.AdmissionOptions(o.Admission).WithClusterDefaults(inside, a.name),
		ShutdownTimeout: o.ShutdownTimeout, UnfinishedTasks: a.inFlight.names,
		Address: o.Address, HealthAddress: o.HealthAddress, Profiling: o.Profiling, Log: o.Log,
		History: manager.History{Off: o.HistorySize < 0, MaxBytes: max(0, o.HistorySize)}, Plan: dryrun.ForObject,
	}
	for _, p := range a.registrations {
		managerOpts.GoControllers = append(managerOpts.GoControllers, p.goController())
	}
	return managerOpts
}

// buildVersion is the version of the program's main module; "" where it has none.
func buildVersion() string {
	build, known := debug.ReadBuildInfo()
	if !known || build.Main.Version == "(devel)" {
		return ""
	}
	return build.Main.Version
}

// runLifecycle does something after OnStart and before OnStop.
func (a *App) runLifecycle(ctx context.Context, work func() error) (err error) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		for _, stop := range a.stops {
			err = errors.Join(err, wrapStage("stop", stop(ctx)))
		}
	}()
	for _, start := range a.starts {
		if err := start(ctx); err != nil {
			return wrapStage("start", err)
		}
	}
	return work()
}

// wrapStage says when an error happened; nil stays nil.
func wrapStage(when string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", when, err)
}

// callWhenReady calls say, if there is somebody to tell, when ready is closed.
func callWhenReady(ctx context.Context, ready <-chan struct{}, say func()) {
	select {
	case <-ready:
		if say != nil {
			say()
		}
	case <-ctx.Done():
	}
}
