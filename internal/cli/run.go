package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/host"
)

// runFlags are what `setpoint run` can be told.
type runFlags struct {
	kubeconfig string
	context    string
	crds       *choice
	workers    int
	address    string
	profiling  bool
	logFormat  *choice
	logLevel   *choice
}

func (p *program) runCommand() *cobra.Command {
	f := &runFlags{
		crds:      oneOf("install", "skip"),
		logFormat: oneOf("text", "json"),
		logLevel:  oneOf("info", "debug", "warn", "error"),
	}
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the controllers of a cluster",
		Long: `Run the controllers that are defined in a cluster, until told to stop.

The cluster is the one of --kubeconfig, else of $KUBECONFIG, else the one this
program runs in, else the current one of ~/.kube/config.

The first SIGINT or SIGTERM lets what is under way end; a second one does not.`,
		Example: `  setpoint run                                    # inside a cluster
  setpoint run --kubeconfig dev.yaml --context staging
  setpoint run --crds=skip --log-format=json      # CRDs come with the chart`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return p.run(c.Context(), f) },
	}
	f.register(c)
	return c
}

func (f *runFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "`file` that says how to reach the cluster")
	flags.StringVar(&f.context, "context", "", "`name` of the context in the kubeconfig to use")
	flags.IntVar(&f.workers, "workers", 32, "how many objects of one controller are worked on at once")
	flags.StringVar(&f.address, "address", ":8080", "where /healthz, /readyz and /metrics are served; empty for nowhere")
	flags.BoolVar(&f.profiling, "profiling", false, "serve Go's profiles at that address too, under /debug/pprof")
	f.crds.flag(c, "crds", "", "install or upgrade the definitions of our kinds, or leave that to others")
	f.logFormat.flag(c, "log-format", "", "how log lines are written")
	f.logLevel.flag(c, "log-level", "", "the least that is logged")
}

func (p *program) run(ctx context.Context, f *runFlags) error {
	if f.workers < 1 {
		return usageError{fmt.Errorf("--workers must be at least 1, not %d", f.workers)}
	}
	log := newLog(p.stderr, f.logFormat.value, f.logLevel.value)
	config, err := clusterConfig(f.kubeconfig, f.context)
	if err != nil {
		return err
	}
	h, err := host.New(host.Options{
		Config: config, SkipCRDs: f.crds.value == "skip", Workers: f.workers,
		Address: f.address, Profiling: f.profiling, Version: readVersion().Version, Log: log,
	})
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	go tendMemory(ctx)
	began := time.Now()
	go announce(ctx, h.Ready(), func() { log.Info("ready", "took", time.Since(began).Round(time.Millisecond).String()) })
	return h.Run(ctx)
}

// announce calls say when ready is closed.
func announce(ctx context.Context, ready <-chan struct{}, say func()) {
	select {
	case <-ready:
		say()
	case <-ctx.Done():
	}
}

// clusterConfig finds the cluster, in the order that controllers commonly use.
func clusterConfig(kubeconfig, context string) (*rest.Config, error) {
	config, err := loadConfig(kubeconfig, context)
	if clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster) {
		return nil, hinted{errors.New("there is no cluster to run in"), "name one with --kubeconfig FILE, or start one with `setpoint dev`"}
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1 // The API server's priority and fairness is the limit.
	config.UserAgent = "setpoint/" + readVersion().Version
	return config, nil
}

func loadConfig(kubeconfig, context string) (*rest.Config, error) {
	if kubeconfig == "" && context == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		config, err := rest.InClusterConfig()
		if !errors.Is(err, rest.ErrNotInCluster) {
			return config, err
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
}
