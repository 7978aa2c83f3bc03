package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/expression"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/operator"
)

// installNamespace is the namespace of the chart and the manifests.
const installNamespace = "setpoint-system"

// uninstallFlags are the flags of `setpoint uninstall`. They name the same as those of run.
type uninstallFlags struct {
	placeFlags

	selector string
	// namespaces are those that Setpoint was limited to.
	namespaces flags.Namespaces
	service    string
	crds       bool
	dryRun     bool
	operator   operatorFlags
}

func (p *program) uninstallCommand() *cobra.Command {
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
		RunE: func(c *cobra.Command, files []string) error { return p.uninstall(c, f, files) },
	}
	f.register(c)
	return c
}

func (f *uninstallFlags) register(c *cobra.Command) {
	f.registerPlace(c, installNamespace, "`namespace` that Setpoint ran in")
	set := c.Flags()
	set.StringVarP(&f.selector, "selector", "l", "", "label `selector` of the controllers, if Setpoint ran with one")
	set.Var(&f.namespaces, "namespaces", "comma-separated namespaces in which Setpoint handled objects, if it ran with some")
	set.StringVar(&f.service, "admission-service", "setpoint", "`name` of the Service of the webhook server")
	set.BoolVar(&f.crds, "crds", false, "delete the CRDs of controllers too, and with them all controllers")
	set.BoolVar(&f.dryRun, "dry-run", false, "only print what would be removed")
	f.operator.registerSource(set)
	set.StringVar(&f.operator.name, "name", "", "`name` of the operator, if it ran with one")
}

func (p *program) uninstall(c *cobra.Command, f *uninstallFlags, files []string) error {
	if err := f.check(c, files); err != nil {
		return usageError{err}
	}
	cluster, err := f.cluster.find()
	if err != nil {
		return err
	}
	options := manager.Options{
		Expressions: expression.Compile,
		Config:      cluster.Config, Namespace: f.namespace, Namespaces: f.namespaces, Selector: f.selector,
		Admission: serving.AdmissionOptions{Service: f.service},
		Version:   readVersion().Version, Log: flags.NewLog(p.stderr, flags.Brief, "info"),
	}
	if f.operator.given() {
		op, err := f.describe(c, cluster, &options, files, p.stderr)
		if err != nil {
			return err
		}
		defer op.Close()
		warnUnset(options.Log, op.UnsetBy())
	}
	removed := 0
	err = manager.Uninstall(c.Context(), options, manager.UninstallOptions{DryRun: f.dryRun, CRDs: f.crds, Report: func(line string) {
		removed++
		fmt.Fprintln(p.stdout, line)
	}})
	if err == nil && removed == 0 {
		fmt.Fprintln(p.stdout, "nothing to remove")
	}
	return err
}

// warnUnset tells what is not known of an operator whose startup handlers were not called.
func warnUnset(log *slog.Logger, handlers []string) {
	if len(handlers) > 0 {
		log.Warn("startup handlers are not called: a finalizer or a diffbase_storage that they set is not removed or given back; "+
			"serve the operator with python3 -m setpoint serve, and use --operator URL instead of --python", "handlers",
			strings.Join(handlers, ", "))
	}
}

func (f *uninstallFlags) check(c *cobra.Command, files []string) error {
	switch operator := f.operator.given(); {
	case !operator && len(files) > 0:
		return noArguments(c, files)
	case !operator && f.operator.name != "":
		return errors.New("--name requires --python, --module or --operator")
	case operator && (f.selector != "" || f.crds):
		return errors.New("--selector and --crds are for the controllers of the cluster, not for an operator")
	case operator:
		return f.operator.checkDescribed(files)
	}
	return checkSelector(f.selector)
}

// describe sets the options of `setpoint run` of an operator, without running it.
func (f *uninstallFlags) describe(c *cobra.Command, in manager.Cluster, options *manager.Options, files []string,
	stderr io.Writer) (*operator.Operator, error) {
	op, err := f.operator.describe(c.Context(), in, f.cluster, files, stderr)
	if err != nil {
		return nil, err
	}
	if !c.Flags().Changed("namespace") {
		options.Namespace = metav1.NamespaceDefault // As that of a program outside of the cluster.
	}
	if !c.Flags().Changed("admission-service") {
		options.Admission.Service = op.Name()
	}
	op.Configure(options)
	return op, nil
}
