// Package rbac is `setpoint rbac`: it prints the least roles that controllers need.
package rbac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/operators"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
)

// rbacFlags are the flags of `setpoint rbac`.
type rbacFlags struct {
	cluster    client.ClusterFlags
	files      []string
	everything bool
	namespaces flags.Namespaces
	name       string
	// account and defaultAccount are NAMESPACE/NAME.
	account, defaultAccount string
	related                 []string
	format                  *flags.Choice
	operator                operators.Source
}

// installedAccount is the ServiceAccount of the install manifests.
const installedAccount = "setpoint-system/setpoint"

// Command returns `setpoint rbac`.
func Command(p *command.Invocation) *cobra.Command {
	none := ""
	f := &rbacFlags{format: flags.OneOf(output.AsYAML, output.AsJSON)}
	c := &cobra.Command{
		Use:   "rbac (FILE… | CONTROLLER… | -A | --python FILE…)",
		Short: "Print the least roles that controllers need",
		Long: `Print the roles with the least rights that controllers need, with a comment for each
rule. Apply them with 'setpoint rbac … | kubectl apply -f -'.

FILE is a manifest, a folder of manifests, or - for standard input. CONTROLLER is a
controller of the cluster, such as compositecontroller.setpoint.dev/NAME, or its NAME if
that is unambiguous. Kinds are looked up in the CRDs of the files and in the cluster.
Without a cluster the scope of others is assumed, and a comment says so. The roles are for
what controllers do, not for the work of Setpoint itself, which the install manifests
allow.

The ClusterRole has the label rbac.setpoint.dev/aggregate-to-setpoint: the ServiceAccount
of the install manifests gets its rules without a binding. --service-account prints
bindings to another one instead. Controllers with spec.serviceAccountName have roles for
that ServiceAccount; Setpoint itself then may only watch, and impersonate it.

The kinds that a customize hook selects are known at run time only: name them with
--related. Rights beyond what controllers declare, such as those of Roles that they write,
belong into a ClusterRole of your own.

--python and --operator print all that an operator needs that runs with a ServiceAccount of
its own: the ServiceAccount, roles and bindings, also for the work of Setpoint. Files are
imported, without starting handlers.`,
		Example: `  setpoint rbac controller.yaml crd.yaml | kubectl apply -f -
  setpoint rbac teams --namespaces a,b          # Roles in two namespaces
  setpoint rbac -A --service-account ops/setpoint
  setpoint rbac --python operator.py --service-account shop/rates`,
		ValidArgsFunction: orFiles(client.Complete(&f.cluster, &none, completeRBAC)),
		RunE:              func(c *cobra.Command, args []string) error { return run(c.Context(), p, f, args) },
	}
	f.register(c)
	return c
}

func (f *rbacFlags) register(c *cobra.Command) {
	set := c.Flags()
	set.SortFlags = false
	f.cluster.Register(c)
	set.StringArrayVarP(&f.files, "filename", "f", nil, "`file` or folder with controllers and CRDs (repeatable)")
	set.BoolVarP(&f.everything, "all", "A", false, "all controllers of the cluster")
	set.Var(&f.namespaces, "namespaces", "comma-separated `namespaces` that setpoint run is limited to (default: all)")
	set.StringVar(&f.name, "name", "", "`name` of the roles (default: from the controller; required for several), or --name of an operator")
	set.StringVar(&f.account, "service-account", "",
		"`NAMESPACE/NAME` of Setpoint's ServiceAccount, to bind roles to it (default: label the ClusterRole for "+installedAccount+")")
	set.StringVar(&f.defaultAccount, "default-service-account", "",
		"`[NAMESPACE/]NAME` that setpoint run has, for controllers that name none")
	set.StringArrayVar(&f.related, "related", nil, "`kind` that customize hooks select (repeatable)")
	command.AddChoice(c, f.format, "output", "o", "output format")
	f.operator.Register(set)
	client.CompleteNamespaces(c, &f.cluster, "namespaces")
	// It fails only for an undefined flag.
}

// rbacRun is one run of the command.
type rbacRun struct {
	*command.Invocation
	*rbacFlags
	needs  *manager.ObjectPermissions
	client *client.Client
	// offline is set if there is no cluster; perms must not be used then.
	offline *offline
	grant   rbac.Grant
}

func run(ctx context.Context, p *command.Invocation, f *rbacFlags, args []string) error {
	r := &rbacRun{Invocation: p, rbacFlags: f}
	options, err := r.options()
	if err != nil {
		return command.UsageError(err)
	}
	if r.operator.Given() {
		return r.operatorManifests(ctx, args)
	}
	input, err := r.input(args)
	if err != nil {
		return err
	}
	options.Expressions = expression.Compile
	if options.Config, err = r.connect(ctx, input); err != nil {
		return err
	}
	if r.needs, err = manager.NewObjectPermissions(options, input.definitions); err != nil {
		return err
	}
	if r.offline != nil {
		r.needs.Assume(r.offline.kinds.Resolve)
	}
	if err := r.fill(ctx, input); err != nil {
		return err
	}
	return r.printRoles(r.grant.Roles())
}

// options checks the flags.
func (r *rbacRun) options() (o manager.Options, err error) {
	if o.DefaultAccount, err = identity.Parse(r.defaultAccount); err != nil {
		return o, fmt.Errorf("--default-service-account: %w", err)
	}
	account, err := identity.Parse(r.account)
	if err == nil && account.PerNamespace() {
		err = fmt.Errorf("%q has no namespace; want NAMESPACE/NAME", r.account)
	}
	if err != nil {
		return o, fmt.Errorf("--service-account: %w", err)
	}
	if r.grant.Aggregate = account.IsZero(); r.grant.Aggregate {
		account, _ = identity.Parse(installedAccount)
	}
	r.grant.Process, o.Namespace, o.Namespaces = account, account.Namespace, r.namespaces
	return o, nil
}

// fill finds out what the controllers need.
func (r *rbacRun) fill(ctx context.Context, input rbacInput) error {
	controllers, err := r.controllers(ctx, input)
	if err != nil {
		return err
	}
	related, err := r.declaredRelated(ctx)
	if err != nil {
		return err
	}
	for _, declared := range controllers {
		needs, customizes, err := r.needs.Of(ctx, declared, related)
		if err != nil && r.offline != nil {
			return command.WithHint(err, strings.Join(r.offline.kinds.Notes(), ""))
		}
		if err != nil {
			return err
		}
		if customizes {
			r.grant.Comments = append(r.grant.Comments, needs.Name+": its customize hook selects kinds at run time: "+
				cmp.Or(strings.Join(r.related, ", "), "none is known")+". Add others with --related KIND.")
		}
		r.grant.Controllers = append(r.grant.Controllers, needs)
	}
	if r.grant.Name, err = r.roleName(); err != nil {
		return err
	}
	if r.offline == nil {
		for _, namespace := range r.needs.AbsentNamespaces(ctx, r.grant.Controllers) {
			r.grant.Comments = append(r.grant.Comments, "There is no namespace "+namespace+". Create it first: kubectl create namespace "+
				namespace)
		}
	}
	if r.offline != nil {
		acts := slices.ContainsFunc(r.grant.Controllers, func(c rbac.Controller) bool { return !c.Identity.IsZero() })
		r.grant.Comments = append(r.grant.Comments, r.offline.comments(acts)...)
		return nil
	}
	r.grant.Constrained, err = r.needs.ServesConstrainedImpersonation(ctx)
	return err
}

// roleName returns the name of the roles. Two sets of controllers must not get one name: the
// second would take the rights of the first.
func (r *rbacRun) roleName() (string, error) {
	switch all := r.grant.Controllers; {
	case r.name != "":
		return r.name, nil
	case r.everything:
		return "setpoint-controllers", nil
	case len(all) == 1:
		kind, name, _ := strings.Cut(all[0].Name, "/")
		kind, group, _ := strings.Cut(kind, ".")
		return strings.TrimSuffix(strings.TrimSuffix(group, ".dev"), ".k8s.io") + "-" + kind + "-" + name, nil
	default:
		return "", command.UsageErrorf("%d controllers are given; name their roles with --name", len(all))
	}
}

// printRoles prints roles.
func (r *rbacRun) printRoles(roles []rbac.Role) error {
	if len(roles) == 0 {
		return errors.New("no rights are needed")
	}
	if r.format.Value == output.AsJSON {
		return output.Encode(r.Stdout, output.AsJSON, map[string]any{"apiVersion": "v1", "kind": "List", "items": rbac.Objects(roles)})
	}
	text, err := rbac.YAML(roles)
	if err != nil {
		return err
	}
	_, err = r.Stdout.Write(text)
	return err
}
