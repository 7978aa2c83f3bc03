// Package portforward finds the processes in a cluster and reads them through the API server,
// with the permissions of the user.
//
// Processes are found by their Leases and reached by port-forward, so that nothing has to be
// exposed. What is read belongs in model, the protocol in wire.
package portforward

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	apps "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
)

// Location is a pod with an inspect endpoint.
type Location struct {
	// Name is the name of the process: that of its Lease.
	Name           string
	Namespace, Pod string
	Port           uint16
}

// String returns namespace/pod:port.
func (p Location) String() string {
	return net.JoinHostPort(p.Namespace+"/"+p.Pod, strconv.Itoa(int(p.Port)))
}

// Parse parses [namespace/]pod[:port]. The namespace defaults to home, the port to DefaultPort.
func Parse(text, home string) (Location, error) {
	pod, port, hasPort := strings.Cut(text, ":")
	p := Location{Namespace: home, Pod: pod, Port: locate.DefaultPort}
	if namespace, name, found := strings.Cut(pod, "/"); found {
		p.Namespace, p.Pod = namespace, name
	}
	p.Name = p.Pod
	if hasPort {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return Location{}, fmt.Errorf("%q has no valid port: use NAMESPACE/POD:PORT", text)
		}
		p.Port = uint16(number)
	}
	if p.Namespace == "" || p.Pod == "" || strings.Contains(p.Pod, "/") {
		return Location{}, fmt.Errorf("%q is not a pod: use NAMESPACE/POD or NAMESPACE/POD:PORT", text)
	}
	return p, nil
}

// Discover returns the pods of all annotated Leases. If the user may not list all Leases, it
// lists those of the namespace. Notes explain why Leases were ignored.
func Discover(ctx context.Context, config *rest.Config, namespace string) (locations []Location, notes []string, err error) {
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("create client: %w", err)
	}
	leases, err := client.Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		leases, err = client.Leases(namespace).List(ctx, metav1.ListOptions{})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list Leases: %w", err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		value := lease.Annotations[locate.LeaseAnnotation]
		if value == "" {
			continue
		}
		location, err := Parse(value, lease.Namespace)
		switch {
		case err != nil:
			notes = append(notes, fmt.Sprintf("ignored Lease %s/%s: %v", lease.Namespace, lease.Name, err))
			continue
		case location.Namespace != lease.Namespace:
			// A user who may write Leases in one namespace must not redirect requests to another.
			notes = append(notes, fmt.Sprintf("ignored Lease %s/%s: its pod is in another namespace; use --pod %s",
				lease.Namespace, lease.Name, location))
			continue
		}
		location.Name = lease.Name
		locations = append(locations, location)
	}
	return locations, notes, nil
}

// Replicas returns the other running pods of the ReplicaSet or StatefulSet that controls a pod: they have the
// same flags, and so the same port. Their names are those of the pods.
func Replicas(ctx context.Context, config *rest.Config, of Location) ([]Location, error) {
	client, err := core.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	pods := client.Pods(of.Namespace)
	pod, err := pods.Get(ctx, of.Pod, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read pod %s/%s: %w", of.Namespace, of.Pod, err)
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil, nil
	}
	shared := labels.Set(pod.Labels)
	delete(shared, apps.StatefulSetPodNameLabel)
	delete(shared, apps.PodIndexLabel)
	list, err := pods.List(ctx, metav1.ListOptions{
		LabelSelector: shared.String(), FieldSelector: fields.OneTermEqualSelector("status.phase", string(corev1.PodRunning)).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list pods in %s: %w", of.Namespace, err)
	}
	var replicas []Location
	for i := range list.Items {
		if other := &list.Items[i]; other.Name != of.Pod && metav1.IsControlledBy(other, &metav1.ObjectMeta{UID: owner.UID}) {
			replicas = append(replicas, Location{Name: other.Name, Namespace: of.Namespace, Pod: other.Name, Port: of.Port})
		}
	}
	return replicas, nil
}
