package manager

import (
	"context"
	"maps"
	"sync/atomic"

	api "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/discovery"
)

// annotatingLeases are Leases that tell where their holder is: so that it can be found, without
// one more request or permission.
type annotatingLeases struct {
	coordination.LeasesGetter
	identity string
	// address is what reach.LeaseAnnotation says; nil for nothing.
	address *atomic.Pointer[string]
}

// Leases makes the client of a namespace.
func (p annotatingLeases) Leases(namespace string) coordination.LeaseInterface {
	return annotatingLeaseClient{p.LeasesGetter.Leases(namespace), p}
}

type annotatingLeaseClient struct {
	coordination.LeaseInterface
	annotatingLeases
}

// Create creates a lease.
func (p annotatingLeaseClient) Create(ctx context.Context, lease *api.Lease, o metav1.CreateOptions) (*api.Lease, error) {
	return p.LeaseInterface.Create(ctx, p.annotate(lease), o)
}

// Update updates one.
func (p annotatingLeaseClient) Update(ctx context.Context, lease *api.Lease, o metav1.UpdateOptions) (*api.Lease, error) {
	return p.LeaseInterface.Update(ctx, p.annotate(lease), o)
}

// annotate is a lease that tells where we are if we hold it, and where nobody is if nobody
// does.
func (p annotatingLeases) annotate(lease *api.Lease) *api.Lease {
	told := *lease
	told.Annotations = maps.Clone(lease.Annotations)
	delete(told.Annotations, discovery.LeaseAnnotation)
	place := p.address.Load()
	if holder := lease.Spec.HolderIdentity; place == nil || holder == nil || *holder != p.identity {
		return &told
	}
	if told.Annotations == nil {
		told.Annotations = map[string]string{}
	}
	told.Annotations[discovery.LeaseAnnotation] = *place
	return &told
}
