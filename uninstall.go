package setpoint

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

func (a *App) uninstallCommand(args []string, stdout io.Writer) (command, error) {
	var o Options
	var namespaces flags.Namespaces
	var dryRun bool
	set := flag.NewFlagSet(a.name+" uninstall", flag.ContinueOnError)
	set.StringVar(&o.Kubeconfig, "kubeconfig", "",
		"`file` that says how to reach the cluster; else $KUBECONFIG, the cluster this program runs in, or ~/.kube/config")
	set.StringVar(&o.Context, "context", "", "`name` of the context in the kubeconfig to use")
	set.StringVar(&o.Namespace, "namespace", "default", "`namespace` that the program ran in")
	set.StringVar(&o.Admission.Service, "admission-service", a.name, "`name` of the Service by which the API server came")
	set.StringVar(&o.LeaderElection.Name, "leader-elect-resource-name", a.name, "`name` of its lease")
	set.StringVar(&o.LeaderElection.Namespace, "leader-elect-resource-namespace", "",
		"`namespace` of that lease; the one of --namespace if empty")
	set.Var(&namespaces, "namespaces", "comma-separated `namespaces` in which the program handled objects, if it ran with some")
	set.BoolVar(&dryRun, "dry-run", false, "only print what would be removed")
	err := a.parseFlags(set, args, stdout, func() {
		fmt.Fprintf(stdout, "%s uninstall [flags] removes the webhook configurations, the finalizers of its controllers,\n"+
			"the Secrets that it generated and its lease.\n"+
			"Stop the program first.\n\nFlags:\n", program())
		set.PrintDefaults()
	})
	if err != nil {
		return nil, err
	}
	o.Namespaces = namespaces
	return func(ctx context.Context, stdout, _ io.Writer) error {
		return a.uninstall(ctx, o, manager.UninstallOptions{DryRun: dryRun, Report: func(line string) { fmt.Fprintln(stdout, line) }})
	}, nil
}

// Uninstall removes the webhook configurations, finalizers, generated Secrets and Leases of an
// app that ran in a cluster with these options. It returns an error while the app runs, which
// would create them again. An app that runs outside the cluster without replicas removes its
// webhook configurations when it stops.
func (a *App) Uninstall(ctx context.Context, o Options) error {
	return a.uninstall(ctx, o, manager.UninstallOptions{})
}

func (a *App) uninstall(ctx context.Context, o Options, u manager.UninstallOptions) error {
	cluster, err := findCluster(o)
	if err != nil {
		return err
	}
	managerOpts := a.managerOptions(o, true)
	managerOpts.Config = cluster.Config
	return manager.Uninstall(ctx, managerOpts, u)
}
