// Package client connects a command to its cluster with the credentials of the user: it finds kinds, objects and
// controllers by the words of arguments, completes them, and hides what the user may not read.
package client

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/manager"
)

// ClusterFlags select the cluster.
type ClusterFlags struct {
	Kubeconfig string
	Context    string
}

// Find returns the cluster: that of the flags, else of $KUBECONFIG, else of the session of `setpoint dev` of the working
// directory, else as kubectl finds it.
func (f ClusterFlags) Find() (found manager.Cluster, err error) {
	if f.Kubeconfig == "" && f.Context == "" {
		if f.Kubeconfig, err = SessionKubeconfig(); err != nil {
			return found, err
		}
	}
	return f.FindConfigured()
}

// SessionKubeconfig returns the kubeconfig of the session of `setpoint dev` of the working directory; "" if there is none, or
// if $KUBECONFIG is set.
func SessionKubeconfig() (string, error) {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return "", nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", nil //nolint:nilerr // The working directory is gone, and no session has it.
	}
	session, err := locate.FindSession(dir)
	if err != nil && !errors.Is(err, locate.ErrNoSession) {
		return "", command.WithHint(err, "--kubeconfig FILE or $KUBECONFIG selects the cluster")
	}
	return session.Kubeconfig, nil
}

// FindConfigured is Find without sessions, for what runs controllers: a session runs its own.
func (f ClusterFlags) FindConfigured() (manager.Cluster, error) {
	found, err := manager.FindCluster(f.Kubeconfig, f.Context)
	if errors.Is(err, manager.ErrNoCluster) {
		err = command.WithHint(err, "set --kubeconfig FILE, or start a cluster with `setpoint dev`")
	}
	if err != nil {
		return found, err
	}
	found.UserAgent = "setpoint/" + command.ReadVersion().Version
	return found, nil
}

// Connect connects to the cluster with the credentials of the user.
func (f ClusterFlags) Connect() (*Client, error) { return connect(f.Find()) }

// Register adds the flags.
func (f *ClusterFlags) Register(c *cobra.Command) {
	c.Flags().StringVar(&f.Kubeconfig, "kubeconfig", "", "`file` with the cluster to use")
	c.Flags().StringVar(&f.Context, "context", "", "`name` of the kubeconfig context to use")
	CompleteContexts(c, &f.Kubeconfig)
}

func connect(found manager.Cluster, err error) (*Client, error) {
	if err != nil {
		return nil, err
	}
	return New(found)
}

// CompleteContexts completes --context.
func CompleteContexts(c *cobra.Command, kubeconfig *string) {
	contexts := func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return command.WithPrefix(word, manager.Contexts(*kubeconfig)), cobra.ShellCompDirectiveNoFileComp
	}
	_ = c.RegisterFlagCompletionFunc("context", contexts) // It fails only for an undefined flag.
}

// InstallNamespace is the namespace of the chart and the manifests.
const InstallNamespace = "setpoint-system"
