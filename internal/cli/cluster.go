package cli

import (
	"errors"

	"github.com/spf13/cobra"

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

// placeFlags select a cluster and a namespace in it.
type placeFlags struct {
	cluster   clusterFlags
	namespace string
}

// ofObjects is the usage of the namespace of objects.
const ofObjects = "`namespace` of the objects (default: that of the context)"

// registerPlace adds the flags, with the default and the usage of the namespace.
func (f *placeFlags) registerPlace(c *cobra.Command, namespace, usage string) {
	set := c.Flags()
	set.SortFlags = false
	f.cluster.register(c)
	set.StringVarP(&f.namespace, "namespace", "n", namespace, usage)
	completeNamespaces(c, &f.cluster, "namespace")
}

// find finds the cluster, with the namespace that was given.
func (f *placeFlags) find() (manager.Cluster, error) {
	found, err := f.cluster.find()
	if f.namespace != "" {
		found.Namespace = f.namespace
	}
	return found, err
}
