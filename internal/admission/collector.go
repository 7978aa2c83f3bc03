package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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
)

// CollectorOptions configure a Collector. Store and Client are required.
type CollectorOptions struct {
	// Store watches the configurations. Client reads Leases and deletes configurations.
	Store  *cache.Cache
	Client rest.Interface
	// OwnLease is the Lease of this process, which is not read. Unused reports that this
	// process registers nothing: configurations with its Lease are from a former process.
	OwnLease func() ObjectName
	Unused   func() bool
	// OnRemoved is called for each removed configuration with its expired Lease.
	OnRemoved func(configuration *object.Object, lease ObjectName)
	// Clock is the real clock if nil, and Log slog.Default.
	Clock clock.Clock
	Log   *slog.Logger
}

// Collector removes webhook configurations of processes that were killed: the API server
// would deny matching changes until the process starts again, which registers them again.
type Collector struct {
	options CollectorOptions
	wake    chan struct{}
	// seen are the observed Leases of configurations.
	seen map[ObjectName]leaseObservation
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
	if o.OwnLease == nil {
		o.OwnLease = func() ObjectName { return ObjectName{} }
	}
	if o.Unused == nil {
		o.Unused = func() bool { return false }
	}
	if o.OnRemoved == nil {
		o.OnRemoved = func(*object.Object, ObjectName) {}
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return &Collector{options: o, wake: make(chan struct{}, 1)}
}

// CollectorPermissions are the permissions of a Collector, except for Leases.
func CollectorPermissions() []Permission {
	verbs := []string{"list", "watch", "delete"}
	return []Permission{{Resource: mutatingResource, Verbs: verbs}, {Resource: validatingResource, Verbs: verbs}}
}

// Run works until ctx ends. It only watches while no configuration has a Lease.
func (c *Collector) Run(ctx context.Context) {
	views := map[object.Resource]*cache.View{}
	defer func() {
		for _, view := range views {
			view.Close()
		}
	}()
	for _, resource := range []object.Resource{mutatingResource, validatingResource} {
		views[resource] = c.options.Store.Watch(cache.Selection{Resource: resource, Labels: groupLabel}, func(cache.Event) {
			select {
			case c.wake <- struct{}{}:
			default:
			}
		})
	}
	c.seen = map[ObjectName]leaseObservation{}
	for ctx.Err() == nil {
		var again <-chan time.Time
		timer := c.options.Clock.NewTimer(collectInterval)
		if c.pass(ctx, views) {
			again = timer.C()
		}
		select {
		case <-again:
		case <-c.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// leasedConfigurations are the configurations with one Lease.
type leasedConfigurations map[configurationKey]*object.Object

// pass checks all configurations, and reports whether one has a Lease.
func (c *Collector) pass(ctx context.Context, views map[object.Resource]*cache.View) bool {
	owners := configurationsByLease(views)
	for lease := range c.seen {
		if owners[lease] == nil {
			delete(c.seen, lease)
		}
	}
	own := c.options.OwnLease()
	for lease, configurations := range owners {
		if !c.abandoned(ctx, lease, own) {
			continue
		}
		for at, o := range configurations {
			c.remove(ctx, at, o, lease)
		}
	}
	return len(owners) > 0
}

func configurationsByLease(views map[object.Resource]*cache.View) map[ObjectName]leasedConfigurations {
	owners := map[ObjectName]leasedConfigurations{}
	for resource, view := range views {
		for o := range view.All() {
			lease, ok := leaseOf(o)
			if !ok || o.Deleting() {
				continue
			}
			if owners[lease] == nil {
				owners[lease] = leasedConfigurations{}
			}
			owners[lease][configurationKey{resource, o.Name()}] = o
		}
	}
	return owners
}

// abandoned reports that the process of a Lease is gone.
func (c *Collector) abandoned(ctx context.Context, lease, own ObjectName) bool {
	if lease == own {
		return c.options.Unused()
	}
	return c.expired(ctx, lease)
}

// expired reports that a Lease was not renewed for its duration, by the local clock. A
// Lease that cannot be read or has no duration does not expire.
func (c *Collector) expired(ctx context.Context, name ObjectName) bool {
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

func (c *Collector) read(ctx context.Context, name ObjectName) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, collectInterval)
	defer cancel()
	result := c.options.Client.Get().AbsPath(leases.Path(name.Namespace, name.Name)).SetHeader("Accept", "application/json").Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{}
	return lease, json.Unmarshal(raw, lease)
}

// remove deletes a configuration in its observed version: a process that registers again
// makes another version.
func (c *Collector) remove(ctx context.Context, at configurationKey, o *object.Object, lease ObjectName) {
	uid, version := types.UID(o.UID()), o.ResourceVersion()
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
	if err == nil {
		err = c.options.Client.Delete().AbsPath(at.resource.Path("", at.name)).SetHeader("Content-Type", "application/json").
			SetHeader("Accept", "application/json").Body(body).Do(ctx).Error()
	}
	switch {
	case ctx.Err() != nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
	case err != nil:
		c.options.Log.Warn("failed to remove an abandoned webhook configuration; retrying",
			"configuration", at.String(), "lease", lease.String(), "error", failure.OneLine(err))
	default:
		c.options.Log.Warn("removed an abandoned webhook configuration",
			"configuration", at.String(), "program", annotation(o, programAnnotation), "lease", lease.String())
		c.options.OnRemoved(o, lease)
	}
}

// AbandonedMessage is the event message of a removed configuration.
func AbandonedMessage(o *object.Object, lease ObjectName) string {
	return fmt.Sprintf("removed, because the process of %s outside the cluster has not renewed its Lease %s; the process registers it again when it starts",
		annotation(o, programAnnotation), lease)
}
