// Package locate finds the processes that run controllers.
//
// Processes on one machine publish their addresses in a private folder. Processes in a cluster
// annotate their Lease with their pod, which package portforward reaches with the permissions
// of the user. What is read from a process belongs in inspect, the protocol in wire.
package locate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// FolderEnv is the environment variable with the folder in which a process publishes itself.
const FolderEnv = "SETPOINT_INSPECT_DIR"

// LeaseAnnotation is the annotation with the pod that holds a Lease, as "namespace/name:port".
const LeaseAnnotation = "setpoint.dev/inspect"

// DefaultPort is the default port of the inspect endpoint.
const DefaultPort = 8082

const extensionName = "setpoint.dev/inspect"

type clusterExtension struct {
	Folder string `json:"folder"`
}

// SetKubeconfigFolder adds a folder to all clusters of a kubeconfig.
func SetKubeconfigFolder(config *clientcmdapi.Config, folder string) error {
	raw, err := json.Marshal(clusterExtension{folder})
	if err != nil {
		return err
	}
	for _, cluster := range config.Clusters {
		if cluster.Extensions == nil {
			cluster.Extensions = map[string]runtime.Object{}
		}
		cluster.Extensions[extensionName] = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
	}
	return nil
}

// KubeconfigFolder returns the folder of a context, or of the current context if it is empty; "" for none.
func KubeconfigFolder(config *clientcmdapi.Config, context string) string {
	if context == "" {
		context = config.CurrentContext
	}
	chosen := config.Contexts[context]
	if chosen == nil || config.Clusters[chosen.Cluster] == nil {
		return ""
	}
	raw, known := config.Clusters[chosen.Cluster].Extensions[extensionName].(*runtime.Unknown)
	var to clusterExtension
	if !known || json.Unmarshal(raw.Raw, &to) != nil {
		return ""
	}
	return to.Folder
}

// ClusterFolder returns the folder in which sessions of this user publish themselves that develop against a
// cluster they have not booted, by the URL of its API server. It need not exist.
func ClusterFolder(server string) (string, error) {
	sum := sha256.Sum256([]byte(server))
	return userFolder("dev", hex.EncodeToString(sum[:8]))
}

// userFolder returns a folder in which sessions of this user publish themselves. It need not exist.
func userFolder(below ...string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the folder for sessions: %w", err)
	}
	return filepath.Join(append([]string{base, "setpoint"}, below...)...), nil
}

// CreateClusterFolder creates ClusterFolder, private to the user.
func CreateClusterFolder(server string) (string, error) {
	folder, err := ClusterFolder(server)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("create the folder for sessions: %w", err)
	}
	return folder, nil
}
