// Package names has the names of the components, for the packages that start them and
// those that run them.
package names

// Command is the hidden first argument that turns the binary into a component.
const Command = "_component"

// The components. In the data directory, files are named after them.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

// Kubernetes lists the components that are programs of Kubernetes itself.
func Kubernetes() []string { return []string{APIServer, ControllerManager, Scheduler} }

// All lists the components in the order in which they are started.
func All() []string {
	return []string{Etcd, APIServer, ControllerManager, Scheduler, Kwok}
}
