package client

import (
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/manager"
)

// PlaceFlags select a cluster and a namespace in it.
type PlaceFlags struct {
	Cluster   ClusterFlags
	Namespace string
}

// OfObjects is the usage of the namespace of objects.
const OfObjects = "`namespace` of the objects (default: that of the context)"

// RegisterPlace adds the flags, with the default and the usage of the namespace.
func (f *PlaceFlags) RegisterPlace(c *cobra.Command, namespace, usage string) {
	set := c.Flags()
	set.SortFlags = false
	f.Cluster.Register(c)
	set.StringVarP(&f.Namespace, "namespace", "n", namespace, usage)
	CompleteNamespaces(c, &f.Cluster, "namespace")
}

// Find finds the cluster, with the namespace that was given.
func (f *PlaceFlags) Find() (manager.Cluster, error) {
	found, err := f.Cluster.Find()
	if f.Namespace != "" {
		found.Namespace = f.Namespace
	}
	return found, err
}

// Connect connects to the cluster with the credentials of the user.
func (f *PlaceFlags) Connect() (*Client, error) { return connect(f.Find()) }
