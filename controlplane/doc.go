// Package controlplane boots a real Kubernetes control plane on the loopback
// interface: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and
// kwok, which plays the nodes, so that pods run without a container runtime.
//
//	cluster, err := controlplane.Start(ctx, controlplane.Options{})
//	if err != nil { … }
//	defer cluster.Stop(context.Background())
//	// cluster.Kubeconfig() is the path of a kubeconfig
//
// Each component is a supervised child process: the binary named by
// Options.Executable started again with a hidden argument. That binary must call
// components.Main first; the setpoint binary does.
//
// What lives here: the order in which things start, the arguments they get, and
// how it is known that they work. What must not: the components themselves, which
// take minutes to compile and live in package components.
package controlplane
