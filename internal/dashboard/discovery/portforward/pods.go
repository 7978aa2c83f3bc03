// Package portforward finds the processes in a cluster that run controllers, and reads what
// they know through the API server, with the rights of whoever asks.
//
// Here live the Leases by which they are found, and the port-forward by which they are
// reached: nothing of a cluster has to be opened for it. What must not: what is read
// (inspect), and how it is carried (inspect/wire). The command line calls.
package portforward

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery"
)

// Location is a pod in which a process can be inspected.
type Location struct {
	// Name is what the process is called here: the name of its Lease.
	Name           string
	Namespace, Pod string
	Port           uint16
}

// String is namespace/pod:port, as Parse reads it.
func (p Location) String() string {
	return net.JoinHostPort(p.Namespace+"/"+p.Pod, strconv.Itoa(int(p.Port)))
}

// Parse reads [namespace/]pod[:port]. The namespace is home where it is left out, the
// port that of processes which say nothing else.
func Parse(text, home string) (Location, error) {
	pod, port, hasPort := strings.Cut(text, ":")
	p := Location{Namespace: home, Pod: pod, Port: discovery.DefaultPort}
	if namespace, name, found := strings.Cut(pod, "/"); found {
		p.Namespace, p.Pod = namespace, name
	}
	p.Name = p.Pod
	if hasPort {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return Location{}, fmt.Errorf("%q names no port of a pod; write NAMESPACE/POD:PORT", text)
		}
		p.Port = uint16(number)
	}
	if p.Namespace == "" || p.Pod == "" || strings.Contains(p.Pod, "/") {
		return Location{}, fmt.Errorf("%q names no pod; write NAMESPACE/POD or NAMESPACE/POD:PORT", text)
	}
	return p, nil
}

// Discover finds those that hold a Lease of any namespace, or of the one that is given where
// not all may be listed. Notes are what is odd about some.
func Discover(ctx context.Context, config *rest.Config, namespace string) (locations []Location, notes []string, err error) {
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client for the cluster: %w", err)
	}
	leases, err := client.Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		leases, err = client.Leases(namespace).List(ctx, metav1.ListOptions{})
	}
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil, fmt.Errorf("find the processes by their Leases: you may list leases.coordination.k8s.io neither in all namespaces nor in %s: %w", namespace, err)
	case err != nil:
		return nil, nil, fmt.Errorf("find the processes by their Leases: %w", err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		said := lease.Annotations[discovery.LeaseAnnotation]
		if said == "" {
			continue
		}
		location, err := Parse(said, lease.Namespace)
		switch {
		case err != nil:
			notes = append(notes, fmt.Sprintf("the lease %s/%s is passed over: %v", lease.Namespace, lease.Name, err))
			continue
		case location.Namespace != lease.Namespace:
			// Who may write a Lease in one namespace is not to lead us into another.
			notes = append(notes, fmt.Sprintf("the lease %s/%s is passed over, because its pod is in another namespace; --pod %s reaches that", lease.Namespace, lease.Name, location))
			continue
		}
		location.Name = lease.Name
		locations = append(locations, location)
	}
	return locations, notes, nil
}
