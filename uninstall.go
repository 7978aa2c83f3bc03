package setpoint

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// uninstallCommand takes back what a program in a cluster leaves there of being asked
// before objects are stored.
func (a *App) uninstallCommand(args []string, stdout io.Writer) (command, error) {
	var o Options
	set := flag.NewFlagSet(a.name+" uninstall", flag.ContinueOnError)
	set.StringVar(&o.Kubeconfig, "kubeconfig", "", "`file` that says how to reach the cluster; else $KUBECONFIG, the cluster this program runs in, or ~/.kube/config")
	set.StringVar(&o.Context, "context", "", "`name` of the context in the kubeconfig to use")
	set.StringVar(&o.Namespace, "namespace", "default", "`namespace` that the program ran in")
	set.StringVar(&o.Admission.Service, "admission-service", a.name, "`name` of the Service by which the API server came")
	set.StringVar(&o.LeaderElection.Name, "leader-elect-resource-name", a.name, "`name` of its lease")
	set.StringVar(&o.LeaderElection.Namespace, "leader-elect-resource-namespace", "", "`namespace` of that lease; the one of --namespace if empty")
	err := a.parseFlags(set, args, stdout, func() {
		fmt.Fprintf(stdout, "%s uninstall [flags] has the API server ask the program no more before objects are stored: it removes the\n"+
			"webhook configurations and the Secret of the certificates. Stop the program first.\n\nFlags:\n", program())
		set.PrintDefaults()
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _, _ io.Writer) error { return a.Uninstall(ctx, o) }, nil
}

// Uninstall has the API server ask the app no more before objects are stored, as one
// that ran in a cluster with these options: it removes the webhook configurations and
// the Secret of the certificates, if they are there. The app must not run any more, or
// it makes them anew. One that runs outside the cluster, alone, does so by itself when
// it ends.
func (a *App) Uninstall(ctx context.Context, o Options) error {
	cluster, err := findCluster(o)
	if err != nil {
		return err
	}
	managerOpts := a.managerOptions(o, true)
	managerOpts.Config = cluster.Config
	return manager.Uninstall(ctx, managerOpts)
}
