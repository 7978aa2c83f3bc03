package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterFlags say which cluster is meant.
type clusterFlags struct {
	kubeconfig string
	context    string
}

// reached is a cluster and how it was found.
type reached struct {
	*rest.Config
	// inside says that this program runs in it.
	inside bool
	// namespace is the one of the kubeconfig's context.
	namespace string
}

// find finds the cluster, in the order that controllers commonly use.
func (f clusterFlags) find() (reached, error) {
	found, err := f.load()
	if clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster) {
		return reached{}, hinted{errors.New("there is no cluster to run in"), "name one with --kubeconfig FILE, or start one with `setpoint dev`"}
	}
	if err != nil {
		return reached{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	found.QPS = -1 // The API server's priority and fairness is the limit.
	found.UserAgent = "setpoint/" + readVersion().Version
	return found, nil
}

func (f clusterFlags) load() (reached, error) {
	if f.kubeconfig == "" && f.context == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		config, err := rest.InClusterConfig()
		if !errors.Is(err, rest.ErrNotInCluster) {
			return reached{Config: config, inside: true, namespace: podNamespace()}, err
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return reached{}, err
	}
	namespace, _, err := loader.Namespace()
	return reached{Config: config, namespace: namespace}, err
}

// namespaceFile is where a pod finds the name of its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// podNamespace is the namespace of the pod that this program is; "default" for
// one that is in none.
func podNamespace() string {
	if name := os.Getenv("POD_NAMESPACE"); name != "" {
		return name
	}
	if name, err := os.ReadFile(namespaceFile); err == nil && len(name) > 0 {
		return strings.TrimSpace(string(name))
	}
	return "default"
}
