package manager

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery"
)

// Cluster is a cluster and how it was found.
type Cluster struct {
	*rest.Config
	// InCluster says that this program runs in it.
	InCluster bool
	// Namespace is the one of the kubeconfig's context, or the pod's.
	Namespace string
	// ProcessDir is the folder in which those of this machine that run controllers of
	// the cluster publish where they are; "" for none.
	ProcessDir string
}

// ErrNoCluster says that nothing names a cluster.
var ErrNoCluster = errors.New("there is no cluster to run in")

// FindCluster finds the cluster of a kubeconfig file, else of $KUBECONFIG, else the
// one this program runs in, else the current one of ~/.kube/config. A context is
// one of the kubeconfig; the current one if empty. The error is ErrNoCluster where
// there is nothing of all that.
func FindCluster(kubeconfig, context string) (Cluster, error) {
	found, err := loadCluster(kubeconfig, context)
	if clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster) {
		return Cluster{}, ErrNoCluster
	}
	if err != nil {
		return Cluster{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	found.ProcessDir = cmp.Or(os.Getenv(discovery.FolderEnv), found.ProcessDir)
	found.QPS = -1 // The API server's priority and fairness is the limit.
	return found, nil
}

func loadCluster(kubeconfig, context string) (Cluster, error) {
	if kubeconfig == "" && context == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		config, err := rest.InClusterConfig()
		if !errors.Is(err, rest.ErrNotInCluster) {
			return Cluster{Config: config, InCluster: true, Namespace: PodNamespace()}, err
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	config, err := loader.ClientConfig()
	if err != nil {
		return Cluster{}, err
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return Cluster{}, err
	}
	namespace, _, err := loader.Namespace()
	return Cluster{Config: config, Namespace: namespace, ProcessDir: discovery.KubeconfigFolder(&raw, context)}, err
}

// namespaceFile is where a pod finds the name of its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// PodNamespace is the namespace of the pod that this program is; "default" for
// one that is in none.
func PodNamespace() string {
	if name := os.Getenv("POD_NAMESPACE"); name != "" {
		return name
	}
	if name, err := os.ReadFile(namespaceFile); err == nil && len(name) > 0 {
		return strings.TrimSpace(string(name))
	}
	return "default"
}
