package cli

import (
	"errors"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// clusterFlags say which cluster is meant.
type clusterFlags struct {
	kubeconfig string
	context    string
}

// find finds the cluster, in the order that controllers commonly use.
func (f clusterFlags) find() (manager.Cluster, error) {
	found, err := manager.FindCluster(f.kubeconfig, f.context)
	if errors.Is(err, manager.ErrNoCluster) {
		return found, errorWithHint{err, "name one with --kubeconfig FILE, or start one with `setpoint dev`"}
	}
	if err != nil {
		return found, err
	}
	found.UserAgent = "setpoint/" + readVersion().Version
	return found, nil
}
