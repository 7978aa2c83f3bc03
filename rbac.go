package setpoint

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
)

// rbacCommand prints the permissions of the app.
func (a *App) rbacCommand(args []string, stdout io.Writer) (command, error) {
	var o Options
	set := flag.NewFlagSet(a.name+" rbac", flag.ContinueOnError)
	account := set.String("service-account", a.name, "`name` of the ServiceAccount")
	set.StringVar(&o.Namespace, "namespace", "default", "`namespace` that the program runs in")
	set.Var((*flags.Namespaces)(&o.Namespaces), "namespaces",
		"comma-separated `namespaces` in which the program handles objects (default: all)")
	set.BoolVar(&o.LeaderElection.Enabled, "leader-elect", true, "allow to elect a leader")
	set.StringVar(&o.LeaderElection.Name, "leader-elect-resource-name", a.name, "`name` of the lease by which they do")
	set.StringVar(&o.LeaderElection.Namespace, "leader-elect-resource-namespace", "",
		"`namespace` of that lease; the one of --namespace if empty")
	set.StringVar(&o.Admission.Service, "admission-service", a.name,
		"`name` of the Service by which the API server comes before it stores objects")
	set.StringVar(&o.Admission.URL, "admission-url", "",
		"`URL` by which it comes otherwise; the certificate is kept in memory then, and not in a Secret")
	set.StringVar(&o.Admission.CertificateSecretName, "admission-certificate-secret", "",
		"`name` of the Secret with the certificate, if you provide it")
	set.StringVar(&o.InspectAddress, "inspect-address", manager.InspectAuto,
		"`address` where setpoint get and the like read, for which the program needs a Secret with a token; empty for nowhere")
	err := a.parseFlags(set, args, stdout, func() {
		fmt.Fprintf(stdout, "%s rbac [flags] prints the ServiceAccount, roles and bindings that the program needs.\n\nFlags:\n", program())
		set.PrintDefaults()
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, stdout, _ io.Writer) error {
		manifests, err := a.RBAC(ctx, *account, o)
		if err != nil {
			return err
		}
		_, err = stdout.Write(manifests)
		return err
	}, nil
}

// RBAC returns the permissions that the app needs with these options as YAML manifests: a
// ServiceAccount in Options.Namespace, roles, and bindings. Permissions in
// Options.Namespaces are Roles, all others a ClusterRole. It includes the Secrets that the
// program fills, empty: that of the inspect token, with Options.InspectAddress, and that of
// the webhook certificates. It assumes
// that the program runs in the cluster, and does not connect to it: the plural of kinds
// that are neither built in nor CRDs of the app is guessed.
func (a *App) RBAC(ctx context.Context, serviceAccount string, o Options) ([]byte, error) {
	o.Namespace = cmp.Or(o.Namespace, "default")
	if err := a.validate(o); err != nil {
		return nil, err
	}
	all, err := a.compileAll(ctx, o)
	if err != nil {
		return nil, err
	}
	managerOpts := a.managerOptions(o, true)
	managerOpts.InspectAddress = manager.Cluster{InCluster: true}.InspectAddress(o.InspectAddress)
	text, err := manager.ProgramManifests(all, managerOpts, serviceAccount, func(rules []rbac.NamespaceRules) []rbac.NamespaceRules {
		return a.addRequired(rules, o.Namespaces)
	})
	return append([]byte(a.caveats()), text...), err
}
