package cli

import (
	"errors"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// clusterFlags select the cluster.
type clusterFlags struct {
	kubeconfig string
	context    string
}

// find returns the cluster, in the order of precedence of kubectl.
func (f clusterFlags) find() (manager.Cluster, error) {
	found, err := manager.FindCluster(f.kubeconfig, f.context)
	if errors.Is(err, manager.ErrNoCluster) {
		return found, errorWithHint{err, "set --kubeconfig FILE, or start a cluster with `setpoint dev`"}
	}
	if err != nil {
		return found, err
	}
	found.UserAgent = "setpoint/" + readVersion().Version
	return found, nil
}
