package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
)

// installNamespace is the namespace of the chart and the manifests.
const installNamespace = "setpoint-system"

// uninstallFlags are the flags of `setpoint uninstall`. They name the same as those of run.
type uninstallFlags struct {
	cluster   clusterFlags
	namespace string
	selector  string
	// namespaces are those that Setpoint was limited to.
	namespaces flags.Namespaces
	service    string
	crds       bool
	dryRun     bool
}

func (p *program) uninstallCommand() *cobra.Command {
	f := &uninstallFlags{}
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove what Setpoint left in a cluster",
		Long: `Remove what a stopped Setpoint left in a cluster: its webhook configurations, its
finalizers on parents, handled objects and controllers, the Secrets that it generated,
and its Leases. No controller and no other object is deleted.

Stop Setpoint first. The command refuses to run while a process renews Setpoint's Lease;
after a process was killed, it watches the Lease for some seconds.

Objects that are being deleted lose the finalizer without a call of their finalize hook.`,
		Example: `  helm uninstall setpoint -n setpoint-system
  setpoint uninstall --dry-run     # print what would be removed
  setpoint uninstall
  setpoint uninstall --crds        # and delete the CRDs with all controllers`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return p.uninstall(c.Context(), f) },
	}
	f.register(c)
	return c
}

func (f *uninstallFlags) register(c *cobra.Command) {
	set := c.Flags()
	set.SortFlags = false
	f.cluster.register(c)
	set.StringVarP(&f.namespace, "namespace", "n", installNamespace, "`namespace` that Setpoint ran in")
	set.StringVarP(&f.selector, "selector", "l", "", "label `selector` of the controllers, if Setpoint ran with one")
	set.Var(&f.namespaces, "namespaces", "comma-separated namespaces in which Setpoint handled objects, if it ran with some")
	set.StringVar(&f.service, "admission-service", "setpoint", "`name` of the Service of the webhook server")
	set.BoolVar(&f.crds, "crds", false, "delete the CRDs of controllers too, and with them all controllers")
	set.BoolVar(&f.dryRun, "dry-run", false, "only print what would be removed")
}

func (p *program) uninstall(ctx context.Context, f *uninstallFlags) error {
	if err := checkSelector(f.selector); err != nil {
		return usageError{err}
	}
	cluster, err := f.cluster.find()
	if err != nil {
		return err
	}
	removed := 0
	err = manager.Uninstall(ctx, manager.Options{
		Config: cluster.Config, Namespace: f.namespace, Namespaces: f.namespaces, Selector: f.selector,
		Admission: serving.AdmissionOptions{Service: f.service},
		Version:   readVersion().Version, Log: flags.NewLog(p.stderr, flags.Brief, "info"),
	}, manager.UninstallOptions{DryRun: f.dryRun, CRDs: f.crds, Report: func(line string) {
		removed++
		fmt.Fprintln(p.stdout, line)
	}})
	if err == nil && removed == 0 {
		fmt.Fprintln(p.stdout, "nothing to remove")
	}
	return err
}
