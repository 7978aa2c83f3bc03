package manager

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
)

// Cluster is a cluster and where its configuration comes from.
type Cluster struct {
	*rest.Config
	// InCluster reports whether this program runs in a pod of the cluster.
	InCluster bool
	// Namespace is that of the kubeconfig's context, or of the pod.
	Namespace string
	// ProcessDir is the directory in which processes on this machine publish their inspect addresses; "" for none.
	ProcessDir string
	// DevDir is the directory in which a session of `setpoint dev --context` publishes what it runs; "" for none.
	DevDir string
}

// LocalDir is the directory with processes on this machine; "" for none.
func (c Cluster) LocalDir() string { return cmp.Or(c.ProcessDir, c.DevDir) }

// ErrNoCluster means that neither a kubeconfig nor a pod names a cluster.
var ErrNoCluster = errors.New("no cluster is configured")

// FindCluster returns the cluster of a kubeconfig file, else of $KUBECONFIG, else the
// one this program runs in, else that of ~/.kube/config. An empty context means the
// kubeconfig's current one. Without any of these the error is ErrNoCluster.
func FindCluster(kubeconfig, context string) (Cluster, error) {
	found, err := loadCluster(kubeconfig, context)
	if clientcmd.IsEmptyConfig(err) || errors.Is(err, rest.ErrNotInCluster) {
		return Cluster{}, noCluster()
	}
	if err != nil {
		return Cluster{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	found.ProcessDir = cmp.Or(os.Getenv(locate.FolderEnv), found.ProcessDir)
	if folder, err := locate.ClusterFolder(found.Host); err == nil && !found.InCluster {
		if _, err := os.Stat(folder); err == nil {
			found.DevDir = folder
		}
	}
	found.QPS = -1 // The API server limits by priority and fairness.
	return found, nil
}

// noCluster returns ErrNoCluster with the files of $KUBECONFIG, if it is set.
func noCluster() error {
	var problems []string
	for _, file := range filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)) {
		problem := file + " has no current context"
		if _, err := os.Stat(file); err != nil { //nolint:gosec // The user names files of their own.
			problem = err.Error()
		}
		problems = append(problems, problem)
	}
	if len(problems) == 0 {
		return ErrNoCluster
	}
	return fmt.Errorf("%w: $KUBECONFIG: %s", ErrNoCluster, strings.Join(problems, ", "))
}

// Contexts returns the names of the contexts in the kubeconfig, as far as it can be read.
func Contexts(kubeconfig string) []string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loaded, err := rules.Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(loaded.Contexts))
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
	return Cluster{Config: config, Namespace: namespace, ProcessDir: locate.KubeconfigFolder(&raw, context)}, err
}

// InspectAuto selects an address by the environment, see Cluster.InspectAddress.
const InspectAuto = "auto"

// InspectAddress resolves InspectAuto: a well-known port in a pod, which is reached by port-forward; any port where
// there is a directory to publish it in; else none. Other addresses stay.
func (c Cluster) InspectAddress(address string) string {
	switch {
	case address != InspectAuto:
		return address
	case c.InCluster:
		return serving.PodInspectAddress()
	case c.ProcessDir != "":
		return serving.AnyLoopbackPort
	}
	return ""
}

// InPod reports whether this program runs in a pod, whichever cluster it uses.
func InPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// namespaceFile holds the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// PodNamespace returns the namespace of this pod, "default" outside a cluster.
func PodNamespace() string {
	if name := os.Getenv("POD_NAMESPACE"); name != "" {
		return name
	}
	if name, err := os.ReadFile(namespaceFile); err == nil && len(name) > 0 {
		return strings.TrimSpace(string(name))
	}
	return "default"
}
