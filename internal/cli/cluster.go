package cli

import (
	"errors"

	"github.com/setpoint-dev/setpoint/internal/host"
)

// clusterFlags say which cluster is meant.
type clusterFlags struct {
	kubeconfig string
	context    string
}

// find finds the cluster, in the order that controllers commonly use.
func (f clusterFlags) find() (host.Cluster, error) {
	found, err := host.FindCluster(f.kubeconfig, f.context)
	if errors.Is(err, host.ErrNoCluster) {
		return found, hinted{err, "name one with --kubeconfig FILE, or start one with `setpoint dev`"}
	}
	if err != nil {
		return found, err
	}
	found.UserAgent = "setpoint/" + readVersion().Version
	return found, nil
}
