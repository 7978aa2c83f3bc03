// Package uninstall is `setpoint uninstall`: it removes what a stopped Setpoint left in a cluster.
package uninstall

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/operators"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/manager/uninstall"
	"github.com/setpoint-dev/setpoint/internal/operator"
)

// uninstallFlags are the flags of `setpoint uninstall`. They name the same as those of run.
type uninstallFlags struct {
	client.PlaceFlags

	selector string
	// namespaces are those that Setpoint was limited to.
	namespaces flags.Namespaces
	service    string
	crds       bool
	dryRun     bool
	operator   operators.Source
}

// Command returns `setpoint uninstall`.
func Command(p *command.Invocation) *cobra.Command {
	f := &uninstallFlags{}
	c := &cobra.Command{
		Use:   "uninstall [flags] [FILE…]",
		Short: "Remove what Setpoint left in a cluster",
		Long: `Remove what a stopped Setpoint left in a cluster: its webhook configurations, its
finalizers on parents, handled objects and controllers, the Secrets that it generated,
and its Leases. No controller and no other object is deleted.

Stop Setpoint first. The command refuses to run while a process renews Setpoint's Lease;
after a process was killed, it watches the Lease for some seconds.

Objects that are being deleted lose the finalizer without a call of their finalize hook.

With --python or --operator, it removes what setpoint run has left of an operator. The files
are imported, but no handler is called.`,
		Example: `  helm uninstall setpoint -n setpoint-system
  setpoint uninstall --dry-run     # print what would be removed
  setpoint uninstall
  setpoint uninstall --crds        # and delete the CRDs with all controllers
  setpoint uninstall --python operator.py`,
		RunE: func(c *cobra.Command, files []string) error { return run(p, c, f, files) },
	}
	f.register(c)
	return c
}

func (f *uninstallFlags) register(c *cobra.Command) {
	f.RegisterPlace(c, client.InstallNamespace, "`namespace` that Setpoint ran in")
	set := c.Flags()
	set.StringVarP(&f.selector, "selector", "l", "", "label `selector` of the controllers, if Setpoint ran with one")
	set.Var(&f.namespaces, "namespaces", "comma-separated namespaces in which Setpoint handled objects, if it ran with some")
	set.StringVar(&f.service, "admission-service", "setpoint", "`name` of the Service of the webhook server")
	set.BoolVar(&f.crds, "crds", false, "delete the CRDs of controllers too, and with them all controllers")
	set.BoolVar(&f.dryRun, "dry-run", false, "only print what would be removed")
	f.operator.Register(set)
	set.StringVar(&f.operator.Name, "name", "", "`name` of the operator, if it ran with one")
}

func run(p *command.Invocation, c *cobra.Command, f *uninstallFlags, files []string) error {
	if err := f.check(c, files); err != nil {
		return command.UsageError(err)
	}
	cluster, err := f.Cluster.Find()
	if err != nil {
		return err
	}
	switch session, _ := client.SessionKubeconfig(); {
	case session == "" || f.Cluster != (client.ClusterFlags{}):
	case f.dryRun:
		fmt.Fprintf(p.Stderr, "note: this is the cluster of the running setpoint dev, of %s\n", session)
	default:
		return command.WithHint(errors.New("setpoint dev runs here, and needs what uninstall would remove from its cluster"),
			"stop it first, or name the cluster that is meant: --context NAME, or --kubeconfig "+session+" for this one")
	}
	options := manager.Options{
		Settings: compile.Settings{Expressions: expression.Compile, Namespace: f.Namespace, Namespaces: f.namespaces},
		Config:   cluster.Config, Selector: f.selector,
		Admission: serving.AdmissionOptions{Service: f.service},
		Version:   command.ReadVersion().Version, Log: flags.NewLog(p.Stderr, flags.Brief, "info"),
	}
	if f.operator.Given() {
		op, err := f.describe(c, cluster, &options, files, p.Stderr)
		if err != nil {
			return err
		}
		defer op.Close()
		if handlers := op.UnsetBy; len(handlers) > 0 {
			options.Log.Warn("startup handlers are not called: a finalizer or a diffbase_storage that they set is not removed or given "+
				"back; serve the operator with python3 -m setpoint serve, and use --operator URL instead of --python", "handlers",
				strings.Join(handlers, ", "))
		}
	}
	removed := 0
	err = manager.Uninstall(c.Context(), options, uninstall.Options{DryRun: f.dryRun, CRDs: f.crds, Report: func(line string) {
		removed++
		fmt.Fprintln(p.Stdout, line)
	}})
	if err == nil && removed == 0 {
		fmt.Fprintln(p.Stdout, "nothing to remove")
	}
	return err
}

func (f *uninstallFlags) check(c *cobra.Command, files []string) error {
	switch operator := f.operator.Given(); {
	case !operator && len(files) > 0:
		return command.NoArguments(c, files)
	case !operator && f.operator.Name != "":
		return errors.New("--name requires --python, --module or --operator")
	case operator && (f.selector != "" || f.crds):
		return errors.New("--selector and --crds are for the controllers of the cluster, not for an operator")
	case operator:
		return f.operator.CheckDescribed(files)
	}
	return command.CheckSelector(f.selector)
}

// describe sets the options of `setpoint run` of an operator, without running it.
func (f *uninstallFlags) describe(c *cobra.Command, in manager.Cluster, options *manager.Options, files []string,
	stderr io.Writer) (*operator.Operator, error) {
	op, err := f.operator.Describe(c.Context(), in, f.Cluster, files, stderr)
	if err != nil {
		return nil, err
	}
	if !c.Flags().Changed("namespace") {
		options.Namespace = metav1.NamespaceDefault // As that of a program outside of the cluster.
	}
	if !c.Flags().Changed("admission-service") {
		options.Admission.Service = op.Name
	}
	op.Configure(options)
	return op, nil
}
