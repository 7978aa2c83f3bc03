package host

import (
	"context"
	"maps"
	"sync/atomic"

	api "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/setpoint-dev/setpoint/internal/reach"
)

// placed are Leases that tell where their holder is: so that it can be found, without
// one more request or permission.
type placed struct {
	coordination.LeasesGetter
	identity string
	// place is what reach.LeaseAnnotation says; nil for nothing.
	place *atomic.Pointer[string]
}

// Leases makes the client of a namespace.
func (p placed) Leases(namespace string) coordination.LeaseInterface {
	return placedLeases{p.LeasesGetter.Leases(namespace), p}
}

type placedLeases struct {
	coordination.LeaseInterface
	placed
}

// Create creates a lease.
func (p placedLeases) Create(ctx context.Context, lease *api.Lease, o metav1.CreateOptions) (*api.Lease, error) {
	return p.LeaseInterface.Create(ctx, p.tell(lease), o)
}

// Update updates one.
func (p placedLeases) Update(ctx context.Context, lease *api.Lease, o metav1.UpdateOptions) (*api.Lease, error) {
	return p.LeaseInterface.Update(ctx, p.tell(lease), o)
}

// tell is a lease that tells where we are if we hold it, and where nobody is if nobody
// does.
func (p placed) tell(lease *api.Lease) *api.Lease {
	told := *lease
	told.Annotations = maps.Clone(lease.Annotations)
	delete(told.Annotations, reach.LeaseAnnotation)
	place := p.place.Load()
	if holder := lease.Spec.HolderIdentity; place == nil || holder == nil || *holder != p.identity {
		return &told
	}
	if told.Annotations == nil {
		told.Annotations = map[string]string{}
	}
	told.Annotations[reach.LeaseAnnotation] = *place
	return &told
}
