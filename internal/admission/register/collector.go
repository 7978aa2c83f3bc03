package register

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// CollectorOptions configure a Collector. All but the last two are required.
type CollectorOptions struct {
	// Store watches the configurations. Client reads Leases and deletes configurations.
	Store  *cache.Cache
	Client rest.Interface
	// OwnLease is the Lease of this process, which is not read. Unused reports that this
	// process registers nothing: configurations with its Lease are from a former process.
	OwnLease func() types.NamespacedName
	Unused   func() bool
	// OnRemoved is called for each removed configuration with its expired Lease.
	OnRemoved func(configuration *object.Object, lease types.NamespacedName)
	// Clock is the real clock if nil, and Log slog.Default.
	Clock clock.Clock
	Log   *slog.Logger
}

// Collector removes webhook configurations of processes that were killed: the API server
// would deny matching changes until the process starts again, which registers them again.
type Collector struct {
	options CollectorOptions
	// seen are the observed Leases of configurations.
	seen map[types.NamespacedName]leaseObservation
}

// leaseObservation is a Lease and when it was first observed in this state, by the local
// clock: that of its holder may differ.
type leaseObservation struct {
	holder     string
	renewed    time.Time
	observedAt time.Time
}

// collectInterval is how often Leases are read.
const collectInterval = 5 * time.Second

// NewCollector returns a Collector. Run starts it.
func NewCollector(o CollectorOptions) *Collector {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return &Collector{options: o, seen: map[types.NamespacedName]leaseObservation{}}
}

// Run works until ctx ends. It only watches while no configuration has a Lease.
func (c *Collector) Run(ctx context.Context) {
	wake := newSignal()
	views := watchConfigurations(c.options.Store, groupLabel, wake)
	defer views.close()
	for ctx.Err() == nil {
		var again <-chan time.Time
		timer := c.options.Clock.NewTimer(collectInterval)
		if c.pass(ctx, views) {
			again = timer.C()
		}
		select {
		case <-again:
		case <-wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// pass checks all configurations, and reports whether one has a Lease.
func (c *Collector) pass(ctx context.Context, views views) bool {
	byLease := map[types.NamespacedName][]*object.Object{}
	for _, view := range views {
		for o := range view.All() {
			if lease, ok := leaseOf(o); ok && !o.Deleting() {
				byLease[lease] = append(byLease[lease], o)
			}
		}
	}
	maps.DeleteFunc(c.seen, func(lease types.NamespacedName, _ leaseObservation) bool { return byLease[lease] == nil })
	own := c.options.OwnLease()
	for lease, configurations := range byLease {
		if !c.abandoned(ctx, lease, own) {
			continue
		}
		for _, o := range configurations {
			c.remove(ctx, o, lease)
		}
	}
	return len(byLease) > 0
}

// abandoned reports that the process of a Lease is gone.
func (c *Collector) abandoned(ctx context.Context, lease, own types.NamespacedName) bool {
	if lease == own {
		return c.options.Unused()
	}
	return c.expired(ctx, lease)
}

// expired reports that a Lease was not renewed for its duration, by the local clock. A
// Lease that cannot be read or has no duration does not expire.
func (c *Collector) expired(ctx context.Context, name types.NamespacedName) bool {
	lease, err := c.read(ctx, name)
	if err != nil {
		delete(c.seen, name)
		c.options.Log.Debug("failed to read the lease of a webhook configuration", "lease", name.String(), "error", failure.OneLine(err))
		return false
	}
	now := leaseObservation{observedAt: c.options.Clock.Now()}
	if lease.Spec.HolderIdentity != nil {
		now.holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.RenewTime != nil {
		now.renewed = lease.Spec.RenewTime.Time
	}
	before, known := c.seen[name]
	if !known || before.holder != now.holder || !before.renewed.Equal(now.renewed) {
		c.seen[name] = now
		return false
	}
	if lease.Spec.LeaseDurationSeconds == nil {
		return false
	}
	return now.observedAt.Sub(before.observedAt) > time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second
}

func (c *Collector) read(ctx context.Context, name types.NamespacedName) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, collectInterval)
	defer cancel()
	raw, err := request.Do(ctx, c.options.Client.Get().AbsPath(object.Leases.Path(name.Namespace, name.Name)))
	if err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{}
	return lease, json.Unmarshal(raw, lease)
}

// remove deletes a configuration in its observed version: a process that registers again
// makes another version.
func (c *Collector) remove(ctx context.Context, o *object.Object, lease types.NamespacedName) {
	at, uid, version := keyOf(o.Kind(), o.Name()), types.UID(o.UID()), o.ResourceVersion()
	err := request.Delete(ctx, c.options.Client, at.resource, o, metav1.Preconditions{UID: &uid, ResourceVersion: &version})
	switch {
	case ctx.Err() != nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
	case err != nil:
		c.options.Log.Warn("failed to remove an abandoned webhook configuration; retrying",
			"configuration", at.String(), "lease", lease.String(), "error", failure.OneLine(err))
	default:
		c.options.Log.Warn("removed an abandoned webhook configuration",
			"configuration", at.String(), "program", programOf(o), "lease", lease.String())
		c.options.OnRemoved(o, lease)
	}
}

// AbandonedMessage is the event message of a removed configuration.
func AbandonedMessage(o *object.Object, lease types.NamespacedName) string {
	return fmt.Sprintf("removed, because the process of %s outside the cluster has not renewed its Lease %s; the process registers it again when it starts",
		programOf(o), lease)
}
