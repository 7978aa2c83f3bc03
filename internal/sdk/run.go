package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dryrun"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/manager/uninstall"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk/kinds"
	tracing "github.com/setpoint-dev/setpoint/internal/trace"
)

// Options are those of the manager, as authors set them, and which cluster to use. Run completes them.
type Options struct {
	manager.Options

	Kubeconfig, Context string
	// Ready is called once, when the controllers run or stand by; it may be nil.
	Ready func()
}

// stopTimeout limits OnStop.
const stopTimeout = 10 * time.Second

// Run runs the app until the context ends.
func (a *App) Run(ctx context.Context, o Options) error {
	a.log, a.running = o.Log, true
	if err := a.validate(o.Namespaces); err != nil {
		return err
	}
	cluster, err := findCluster(o)
	if err != nil {
		return err
	}
	traces, err := tracesOf(o.Traces)
	if err != nil {
		return err
	}
	managed := a.complete(o.Options, cluster.InCluster)
	managed.Traces, managed.Config = traces, cluster.Config
	managed.InspectAddress, managed.InspectDir = cluster.InspectAddress(o.InspectAddress), cluster.ProcessDir
	h, err := manager.New(managed)
	if err != nil {
		return err
	}
	return a.runLifecycle(ctx, func() error {
		go callWhenReady(ctx, h.Ready(), o.Ready)
		return h.Run(ctx)
	})
}

// tracesOf returns where spans go: to the provider of the program, or where the environment says; nil if traces are off.
func tracesOf(said *tracing.Config) (*tracing.Config, error) {
	if said == nil || said.Provider != nil {
		return said, nil
	}
	config, err := tracing.FromEnvironment()
	if config != nil {
		config.Annotate = said.Annotate
	}
	return config, err
}

func findCluster(o Options) (manager.Cluster, error) {
	cluster, err := manager.FindCluster(o.Kubeconfig, o.Context)
	if errors.Is(err, manager.ErrNoCluster) {
		return cluster, fmt.Errorf("%w; name one with a kubeconfig, or start one with `setpoint dev`", err)
	}
	return cluster, err
}

// validate returns all problems of the app, and limits it to namespaces; none means all.
func (a *App) validate(namespaces []string) error {
	problems := a.check()
	for _, c := range a.controllers {
		problems = errors.Join(problems, c.limitNamespaces(namespaces))
	}
	if problems != nil {
		return fmt.Errorf("the app %s cannot run:\n%w", a.name, problems)
	}
	return nil
}

// OfflineEnvironment returns what the app is compiled for without a cluster: kinds are as kinds.Kinds.Resource knows them. It limits the
// app to the namespaces of the options, and returns all problems of both.
func (a *App) OfflineEnvironment(o Options) (compile.Environment, error) {
	if err := a.validate(o.Namespaces); err != nil {
		return compile.Environment{}, err
	}
	return compile.Environment{
		Settings: compile.Settings{Namespace: o.Namespace, Namespaces: o.Namespaces},
		ResolveKind: func(_ context.Context, apiVersion, name string) (object.Resource, error) {
			return a.kinds().Resource(kinds.Kind{APIVersion: apiVersion, Name: name}), nil
		},
	}, nil
}

// CompileAll returns the controllers compiled for an environment.
func (a *App) CompileAll(ctx context.Context, env compile.Environment) ([]*compile.Compiled, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	var all []*compile.Compiled
	for _, c := range a.controllers {
		if !c.runs() {
			continue
		}
		one, err := c.logic.compile(ctx, env)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// complete returns the options with those of the app, and with the defaults of programs.
func (a *App) complete(o manager.Options, inside bool) manager.Options {
	o.Name, o.Version = a.name, cmp.Or(o.Version, buildVersion())
	o.Namespace = cmp.Or(o.Namespace, manager.PodNamespace())
	o.LeaderElection.Name, o.ProcessLease = cmp.Or(o.LeaderElection.Name, a.name), true
	o.Admission = o.Admission.WithClusterDefaults(inside, a.name)
	o.CRDs, o.Metrics, o.Plan = a.crds.Texts, a.metrics, dryrun.ForObject
	o.Health = func() ([]byte, error) { return nil, a.healthChecks.run() }
	o.Unready, o.UnfinishedTasks = a.readyChecks.run, a.calls.names
	if a.dashboard != nil {
		o.Dashboard = a.dashboard
	}
	for _, c := range a.controllers {
		if c.runs() {
			o.GoControllers = append(o.GoControllers, controllers.GoController{Name: c.name(), Compile: c.logic.compile})
		}
	}
	return o
}

// buildVersion is the version of the program's main module, or "".
func buildVersion() string {
	build, known := debug.ReadBuildInfo()
	if !known || build.Main.Version == "(devel)" {
		return ""
	}
	return build.Main.Version
}

// runLifecycle runs a function after OnStart and before OnStop.
func (a *App) runLifecycle(ctx context.Context, work func() error) (err error) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		for _, stop := range a.stops {
			if failed := stop(ctx); failed != nil {
				err = errors.Join(err, fmt.Errorf("stop: %w", failed))
			}
		}
	}()
	for _, start := range a.starts {
		if err := start(ctx); err != nil {
			return fmt.Errorf("start: %w", err)
		}
	}
	return work()
}

// callWhenReady calls a function, unless it is nil, when ready is closed.
func callWhenReady(ctx context.Context, ready <-chan struct{}, say func()) {
	select {
	case <-ready:
		if say != nil {
			say()
		}
	case <-ctx.Done():
	}
}

// Uninstall removes what the app left in a cluster where it ran with these options.
func (a *App) Uninstall(ctx context.Context, o Options, u uninstall.Options) error {
	cluster, err := findCluster(o)
	if err != nil {
		return err
	}
	managed := a.complete(o.Options, true)
	managed.Config, managed.InspectAddress = cluster.Config, ""
	return manager.Uninstall(ctx, managed, u)
}
