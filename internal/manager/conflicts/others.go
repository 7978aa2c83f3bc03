package conflicts

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lease"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Other is a controller object that is not of this dev run.
type Other struct {
	*compile.Compiled
	managedBy string
	// run is that of another `setpoint dev --context`; "" for the controllers of the cluster.
	run, rank string
	// declared is its object.
	declared *object.Object
}

// Refusal says what to do about a controller of the same objects.
func (c Other) Refusal() *compile.Refusal {
	by, remedy := "the cluster has", "suspend that one (spec.suspend: true) or delete it"
	if c.managedBy != "" {
		by = "the Setpoint with the Lease " + c.managedBy + " manages"
	}
	if c.run != "" {
		by = "another run of setpoint dev, with the ConfigMap and the Lease " + c.managedBy + ", has created"
		remedy = "stop that run and remove what it created (setpoint dev --context NAME --cleanup), also if it was killed"
	}
	return &compile.Refusal{Reason: setpoint.ReasonConflictingController,
		Err: fmt.Errorf("%s the controller %s of the same objects, and both would reconcile them: %s, "+
			"give each a labelSelector that excludes the other's objects, or use another cluster or namespace", by, c.Name(), remedy)}
}

// Others are the controllers of the cluster that are not of this dev run. A run of `setpoint dev --context` has
// controllers of its own, which every other Setpoint ignores. So it is the run that must see controllers of others
// with the same objects, and yield to them.
type Others struct {
	Client rest.Interface
	// DevRun is this run of `setpoint dev --context`; "" for none.
	DevRun      string
	Environment func() compile.Environment

	mu   sync.Mutex
	seen []Other
}

// Refresh looks which controllers there are.
func (o *Others) Refresh(ctx context.Context) error {
	all, err := o.List(ctx)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = all
	return nil
}

// List returns the compiled controllers of the cluster, those that are suspended aside. Kinds
// that are not installed, or that the user may not list, have none.
func (o *Others) List(ctx context.Context) ([]Other, error) {
	var all []Other
	for _, kind := range compile.Kinds() {
		stored, err := apply.New(o.Client, apply.Options{DryRun: true}).List(ctx, kind.Resource, "", "")
		if request.IsForbiddenOrNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for _, declared := range stored {
			if other, runs := o.compile(ctx, kind, declared); runs {
				all = append(all, other)
			}
		}
	}
	return all, nil
}

// compile returns a controller object that runs. One of this run, or that goes, is none.
func (o *Others) compile(ctx context.Context, kind compile.Kind, declared *object.Object) (Other, bool) {
	other := Other{run: declared.Labels().Get(setpoint.LabelDevRun), rank: Rank(declared), declared: declared}
	if other.run != "" && other.run == o.DevRun || declared.Deleting() {
		return other, false
	}
	env, managedBy := o.Environment(), compile.StoredStatus(declared).ManagedBy
	env.Namespaces, env.Store = nil, nil // It is only compared: its code may be what another Setpoint cannot read now.
	if managedBy != nil {
		other.managedBy, env.Namespaces = managedBy.Lease, managedBy.Namespaces
	}
	compiled, err := kind.Compile(ctx, declared, env)
	if err != nil {
		return other, false // It does not run either.
	}
	compiled.Release()
	other.Compiled = compiled
	return other, !compiled.Suspended
}

// Check refuses a controller of a dev run if others have the same objects. Of two runs, the older controller goes
// on; all others do not know of those of runs.
func (o *Others) Check(rank string, compiled *compile.Compiled) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.seen, func(other Other) bool {
		return (other.run == "" || other.rank < rank) && Overlap(other.Compiled, compiled)
	})
	if i < 0 {
		return nil
	}
	return o.seen[i].Refusal()
}

// CheckOlder refuses a controller that conflicts with an older stored one that runs. One that is not stored is the youngest.
func (o *Others) CheckOlder(ctx context.Context, declared *object.Object, compiled *compile.Compiled) (*compile.Refusal, error) {
	rank := Rank(declared)
	if declared.Version() == 0 {
		rank = youngestRank(declared)
	}
	all, err := o.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, other := range all {
		if other.rank > rank || other.Name() == compiled.Name() ||
			meta.IsStatusConditionFalse(compile.StoredStatus(other.declared).Conditions, setpoint.ConditionAccepted) {
			continue
		}
		if found, conflicting := Find(other.Compiled, compiled); conflicting {
			kind, name, _ := strings.Cut(other.Name(), "/")
			return found.Refusal(queue.Key{Namespace: kind, Name: name}), nil
		}
	}
	return nil, nil //nolint:nilnil // There is no conflict.
}

// Owners tells which of several installations of Setpoint in a cluster has a controller object: that one runs the
// controller and writes its status, where status.managedBy names it by its Lease. The others refuse the controller
// while that Lease is renewed.
type Owners struct {
	// Own returns how this Setpoint appears in a status; nil if it has no Lease by which others see that it is alive.
	Own func() *setpoint.Instance
	// LeaderElection reports whether all processes with its Lease are replicas. Without it, those with other
	// namespaces are none.
	LeaderElection bool
	Leases         *lease.Observer
}

// IsOwn reports whether this Setpoint, which appears as own, or another replica is the one in a status.
func (o *Owners) IsOwn(own, managedBy *setpoint.Instance) bool {
	return managedBy.Lease == own.Lease && (o.LeaderElection || slices.Equal(managedBy.Namespaces, own.Namespaces))
}

// Other returns the other running Setpoint that manages a controller object; nil for none.
func (o *Owners) Other(ctx context.Context, declared *object.Object) (*setpoint.Instance, error) {
	own, managedBy := o.Own(), compile.StoredStatus(declared).ManagedBy
	if own == nil || managedBy == nil || o.IsOwn(own, managedBy) {
		return nil, nil //nolint:nilnil // No other Setpoint manages it.
	}
	namespace, name, _ := strings.Cut(managedBy.Lease, "/")
	// Without leader election it has another Lease.
	for _, one := range []string{name, leader.Election{Name: name}.ProcessLeaseName(managedBy.Namespaces)} {
		state, err := o.Leases.Observe(ctx, types.NamespacedName{Namespace: namespace, Name: one})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return managedBy, fmt.Errorf("read its Lease %s/%s: %w", namespace, one, err)
		case state.Holder != "" && !state.Expired:
			return managedBy, nil
		}
	}
	return nil, nil //nolint:nilnil // It is gone.
}

// Check refuses a controller that another running Setpoint manages.
func (o *Owners) Check(ctx context.Context, declared *object.Object) error {
	other, err := o.Other(ctx, declared)
	if other == nil {
		return nil
	}
	in := "all namespaces"
	if len(other.Namespaces) > 0 {
		in = "namespaces " + strings.Join(other.Namespaces, ", ")
	}
	why := fmt.Errorf("the Setpoint with the Lease %s manages this controller, in %s; give each Setpoint controllers of its own with "+
		"--selector, or stop one", other.Lease, in)
	if err != nil {
		why = fmt.Errorf("%w; whether it still runs is not known: %s", why, failure.OneLine(err))
	}
	return &compile.Refusal{Reason: setpoint.ReasonConflictingSetpoint, Err: why}
}
