package install

import "maps"

// Names of what is installed. The namespace is that of the docs and of the flags of setpoint get.
const (
	name      = "setpoint"
	namespace = "setpoint-system"
)

// UserID is the user and group of the process in the image.
const UserID = 65532

// Ports of the pods.
const (
	httpPort      = 8080
	webhookPort   = 9443
	dashboardPort = 8443
)

// aggregateLabel is the label of ClusterRoles whose rules the ServiceAccount gets: what the
// controllers of a cluster need beyond Setpoint's own rules. `setpoint rbac` prints such roles.
const aggregateLabel = "rbac.setpoint.dev/aggregate-to-setpoint"

// manifest is one installed object.
type manifest struct {
	// file is its file in the chart, without suffix.
	file string
	// enabled includes it; nil is always.
	enabled condition
	object  tree
}

// object returns an object in the namespace of the installation.
func object(apiVersion, kind, name string, spec any) tree {
	o := tree{"apiVersion": apiVersion, "kind": kind, "metadata": tree{"name": name, "namespace": releaseNamespace,
		"labels": commonLabels()}}
	if spec != nil {
		o["spec"] = spec
	}
	return o
}

// clusterObject returns a cluster-scoped object.
func clusterObject(apiVersion, kind, name string, labels tree) tree {
	all := commonLabels()
	maps.Copy(all, labels)
	return tree{"apiVersion": apiVersion, "kind": kind, "metadata": tree{"name": name, "labels": all}}
}

// selector returns the labels that select the pods.
func selector() tree { return tree{"app.kubernetes.io/name": name} }

func commonLabels() tree {
	return tree{"app.kubernetes.io/name": name, "app.kubernetes.io/version": releaseVersion, "app.kubernetes.io/managed-by": managedBy}
}
