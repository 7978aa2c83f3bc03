package register

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lease"
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
	// leases are those of configurations.
	leases *lease.Observer
}

// collectInterval is how often Leases are read.
const collectInterval = 5 * time.Second

// NewCollector returns a Collector. Run starts it.
func NewCollector(o CollectorOptions) *Collector {
	o.Clock, o.Log = cmp.Or[clock.Clock](o.Clock, clock.RealClock{}), cmp.Or(o.Log, slog.Default())
	return &Collector{options: o, leases: lease.NewObserver(o.Client, o.Clock)}
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
	c.leases.Forget(func(name types.NamespacedName) bool { return byLease[name] != nil })
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

// abandoned reports that the process of a Lease is gone: another one was not renewed for its duration. A Lease that
// cannot be read does not expire.
func (c *Collector) abandoned(ctx context.Context, lease, own types.NamespacedName) bool {
	if lease == own {
		return c.options.Unused()
	}
	observed, err := c.leases.Observe(ctx, lease)
	if err != nil {
		c.options.Log.Debug("failed to read the lease of a webhook configuration", "lease", lease.String(), "error", failure.OneLine(err))
	}
	return observed.Expired
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
	return fmt.Sprintf("removed, because the process of %s outside the cluster has not renewed its Lease %s; the process registers it "+
		"again when it starts",
		programOf(o), lease)
}
