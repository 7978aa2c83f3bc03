// Package lease tells whether the holder of a Lease of another process is alive.
//
// It only reads. Package leader holds the Leases of this process; admission/register and the
// manager observe those of others.
package lease

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// readTimeout limits one read.
const readTimeout = 5 * time.Second

// Observer observes Leases of other processes. It is safe for concurrent use.
type Observer struct {
	client rest.Interface
	clock  clock.Clock

	mu   sync.Mutex
	seen map[types.NamespacedName]observation
}

// observation is a Lease and when it was first observed in this state, by the local clock: that of
// its holder may differ.
type observation struct {
	holder     string
	renewed    time.Time
	observedAt time.Time
}

// State is what is known of a Lease.
type State struct {
	// Holder is empty if the Lease was released.
	Holder string
	// Expired means that the Lease was not renewed for its duration while it was observed. A Lease
	// without a duration does not expire.
	Expired bool
}

// NewObserver returns an Observer.
func NewObserver(client rest.Interface, now clock.Clock) *Observer {
	return &Observer{client: client, clock: now, seen: map[types.NamespacedName]observation{}}
}

// Observe reads a Lease. It expires only after it was observed twice, unchanged for its duration.
func (o *Observer) Observe(ctx context.Context, name types.NamespacedName) (State, error) {
	read, err := o.read(ctx, name)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		delete(o.seen, name)
		return State{}, err
	}
	now := observation{holder: ptr.Deref(read.Spec.HolderIdentity, ""), observedAt: o.clock.Now()}
	if read.Spec.RenewTime != nil {
		now.renewed = read.Spec.RenewTime.Time
	}
	before, known := o.seen[name]
	if !known || before.holder != now.holder || !before.renewed.Equal(now.renewed) {
		o.seen[name] = now
		return State{Holder: now.holder}, nil
	}
	duration := read.Spec.LeaseDurationSeconds
	expired := duration != nil && now.observedAt.Sub(before.observedAt) > time.Duration(*duration)*time.Second
	return State{Holder: now.holder, Expired: expired}, nil
}

// Forget drops the observations of all other Leases.
func (o *Observer) Forget(keep func(types.NamespacedName) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.seen {
		if !keep(name) {
			delete(o.seen, name)
		}
	}
}

func (o *Observer) read(ctx context.Context, name types.NamespacedName) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	return lease, o.client.Get().AbsPath(object.Leases.Path(name.Namespace, name.Name)).Do(ctx).Into(lease)
}
