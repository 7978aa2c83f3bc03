package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/dev"
	"github.com/setpoint-dev/setpoint/internal/dev/inventory"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
)

// devContextFlags are the flags of `setpoint dev` for a cluster one already has.
type devContextFlags struct {
	name       string
	namespaces flags.Namespaces
	cleanup    bool
	admission  serving.AdmissionOptions
}

func (f *devContextFlags) register(c *cobra.Command, kubeconfig *string) {
	set := c.Flags()
	set.StringVar(&f.name, "context", "", "`name` of the kubeconfig context of a cluster to use instead of a new one")
	set.VarP(&f.namespaces, "namespaces", "n", "with --context, comma-separated namespaces to apply objects and handle them in; the "+
		"first is the default (default: that of the context)")
	set.BoolVar(&f.cleanup, "cleanup", false,
		"with --context, remove what runs of DIR or FILE have created, or the only run, and nothing else")
	set.StringVar(&f.admission.URL, "admission-url", "",
		"with --context, `URL` by which the API server reaches --admission-address, for AdmissionControllers")
	set.StringVar(&f.admission.Address, "admission-address", "",
		"with --context, listen `address` of the webhook server (default: a free loopback port)")
	client.CompleteContexts(c, kubeconfig)
}

// onlyWithContext and onlyWithoutContext are flags for one of the two kinds of clusters.
var (
	onlyWithContext    = []string{"namespaces", "cleanup", "admission-url", "admission-address"}
	onlyWithoutContext = []string{"data-dir", "kubernetes-binaries", "cluster-only"}
)

func (f *devContextFlags) check(set *pflag.FlagSet, args, command []string) error {
	needing, excluded := slices.IndexFunc(onlyWithContext, set.Changed), slices.IndexFunc(onlyWithoutContext, set.Changed)
	switch with := set.Changed("context"); {
	case !with && needing >= 0:
		return fmt.Errorf("--%s requires --context: it is for a cluster that one already has", onlyWithContext[needing])
	case !with:
		return nil
	case excluded >= 0:
		return fmt.Errorf("--%s is for a cluster that setpoint dev boots; omit it with --context", onlyWithoutContext[excluded])
	case f.name == "":
		return errors.New("--context names no context; the current one is not used by default")
	case f.cleanup && len(command) > 0:
		return errors.New("--cleanup runs no COMMAND")
	case !f.cleanup && len(args) == 0:
		return errors.New("--context requires a DIR or FILE to run in that cluster")
	case f.admission.URL == "" && f.admission.Address != "":
		return errors.New("--admission-address requires --admission-url, by which the API server reaches it")
	}
	return nil
}

// target returns the cluster and what the run is called there.
func (f *devContextFlags) target(kubeconfig string, args []string) (*dev.Target, error) {
	config, err := f.load(kubeconfig)
	if err != nil {
		return nil, err
	}
	run, err := runOf(args)
	if err != nil {
		return nil, err
	}
	t := &dev.Target{
		Kubeconfig: config, Context: f.name, Server: config.Clusters[config.Contexts[f.name].Cluster].Server,
		Admission: f.admission, Run: run, CleanupCommand: f.cleanupCommand(kubeconfig, args),
	}
	t.Namespaces, t.InventoryNamespaces = f.namespacesOf(config)
	return t, nil
}

// namespacesOf returns the namespaces of a run, and those that may have its inventory: a namespace of the run
// may not exist yet.
func (f *devContextFlags) namespacesOf(config *clientcmdapi.Config) (run, inventories []string) {
	ofContext := cmp.Or(config.Contexts[f.name].Namespace, "default")
	if run = f.namespaces; len(run) == 0 {
		run = []string{ofContext}
	}
	return run, lists.Union(slices.Clone(run), []string{ofContext})
}

// load returns a kubeconfig with the context alone.
func (f *devContextFlags) load(kubeconfig string) (*clientcmdapi.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loaded, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if loaded.Contexts[f.name] == nil {
		names := strings.Join(manager.Contexts(kubeconfig), ", ")
		return nil, fmt.Errorf("the kubeconfig has no context %q; it has: %s", f.name, cmp.Or(names, "none"))
	}
	loaded.CurrentContext = f.name
	if err := clientcmdapi.MinifyConfig(loaded); err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return loaded, clientcmd.ConfirmUsable(*loaded, f.name)
}

// runOf returns the run of some folders and files. The name is the same on each machine, the rest is for
// users who look at it.
func runOf(args []string) (inventory.Run, error) {
	dir, err := filepath.Abs(args[0])
	if err != nil {
		return inventory.Run{}, err
	}
	machine, err := os.Hostname()
	if err != nil {
		return inventory.Run{}, fmt.Errorf("find the name of this machine: %w", err)
	}
	name := "user"
	if me, err := user.Current(); err == nil {
		name = me.Username
	}
	return inventory.Run{Name: inventory.NameOf(dir), Owner: name + "@" + machine, Dir: dir}, nil
}

// cleanupCommand is how users remove what the run creates.
func (f *devContextFlags) cleanupCommand(kubeconfig string, args []string) string {
	words := []string{programName(), "dev", "--context", f.name}
	if kubeconfig != "" {
		words = append(words, "--kubeconfig", kubeconfig)
	}
	if len(f.namespaces) > 0 {
		words = append(words, "--namespaces", f.namespaces.String())
	}
	return strings.Join(append(words, "--cleanup", args[0]), " ")
}

// devCleanup removes what a run has created.
func cleanup(ctx context.Context, p *command.Invocation, f *devFlags, args []string) error {
	config, err := f.context.load(f.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client.QPS = -1 // The API server limits requests itself.
	o := dev.CleanupOptions{
		Limited: len(f.context.namespaces) > 0,
		Manager: manager.Options{Config: client, Version: command.ReadVersion().Version, Log: flags.NewLog(p.Stderr, flags.Brief, "warn")},
		Report:  func(format string, args ...any) { fmt.Fprintf(p.Stdout, format+"\n", args...) },
	}
	_, o.Namespaces = f.context.namespacesOf(config)
	if len(args) > 0 {
		if o.Run, err = runOf(args); err != nil {
			return err
		}
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	kept, err := dev.Cleanup(ctx, o)
	if err != nil {
		return err
	}
	if kept > 0 {
		p.Code = command.Failure
		fmt.Fprintf(p.Stderr, "%d objects remain; run this again once the reasons are gone\n", kept)
	}
	return nil
}
