package conflicts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lease"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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
