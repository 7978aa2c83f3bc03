package leader

import (
	"context"
	"maps"
	"sync/atomic"

	api "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/setpoint-dev/setpoint/internal/inspect/locate"
)

// annotatingLeases adds the holder's inspect address to its Lease, without another request or permission.
type annotatingLeases struct {
	coordination.LeasesGetter
	identity string
	// address is the value of locate.LeaseAnnotation; nil for none.
	address *atomic.Pointer[string]
}

// Leases returns the client of a namespace.
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

// annotate returns the Lease with the address of this process if it is the holder, else without an address.
func (p annotatingLeases) annotate(lease *api.Lease) *api.Lease {
	annotated := *lease
	annotated.Annotations = maps.Clone(lease.Annotations)
	delete(annotated.Annotations, locate.LeaseAnnotation)
	address := p.address.Load()
	if address != nil && holderOf(lease) == p.identity {
		metav1.SetMetaDataAnnotation(&annotated.ObjectMeta, locate.LeaseAnnotation, *address)
	}
	return &annotated
}
