// Package discovery finds the processes that run controllers, and reads what each knows.
//
// Here live the two ways: a private folder, in which the processes of one machine
// publish where they are, and the Leases of a cluster, by which those that elect a
// leader say in which pod they run; such a pod is reached through the API server with
// the rights of whoever asks. What must not: what is read (inspect), and how it is
// carried (inspect/wire). The host publishes; dev, cli and the window read.
package discovery

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// FolderEnv is the environment variable by which a process is told in which
// folder to publish where it is.
const FolderEnv = "SETPOINT_INSPECT_DIR"

// LeaseAnnotation is what a Lease says of the pod that holds it, as
// "namespace/name:port".
const LeaseAnnotation = "setpoint.dev/inspect"

// DefaultPort is where pods can be inspected that say nothing else.
const DefaultPort = 8082

// extensionName is the name of that which a cluster's entry in a kubeconfig has, to say
// the same.
const extensionName = "setpoint.dev/inspect"

// clusterExtension is what the extension says.
type clusterExtension struct {
	Folder string `json:"folder"`
}

// SetKubeconfigFolder has all clusters of a kubeconfig lead to a folder.
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

// KubeconfigFolder is the folder to which a kubeconfig leads by one of its contexts, the
// current one if it is empty; "" where it leads to none.
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
