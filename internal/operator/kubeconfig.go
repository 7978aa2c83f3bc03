package operator

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
)

// Kubeconfig says which cluster the process uses: the flags of `setpoint run`.
type Kubeconfig struct{ File, Context string }

// env returns the environment in which the clients of the process find the same cluster as
// Setpoint. Only a context needs a file of its own, since no variable selects one.
func (k Kubeconfig) env(written string) ([]string, error) {
	switch {
	case k.Context == "" && k.File == "":
		return nil, nil // $KUBECONFIG, the pod, or ~/.kube/config.
	case k.Context == "":
		path, err := filepath.Abs(k.File)
		return []string{clientcmd.RecommendedConfigPathEnvVar + "=" + path}, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.File
	config, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.CurrentContext = k.Context
	if err := clientcmd.WriteToFile(*config, written); err != nil { // 0600.
		return nil, fmt.Errorf("write a kubeconfig for the operator: %w", err)
	}
	return []string{clientcmd.RecommendedConfigPathEnvVar + "=" + written}, nil
}
