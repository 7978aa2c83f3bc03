package leader

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// stoppedCheckInterval is the interval of reading Leases that a killed process may have left.
const stoppedCheckInterval = time.Second

// CheckStopped returns an error if a process renews the Lease of this name, in a namespace or
// in all of them. A process that stops empties its Lease. One that was killed does not: then
// CheckStopped watches for the duration of the Lease, since clocks differ. Waiting is called
// before it does.
func CheckStopped(ctx context.Context, config *rest.Config, lease types.NamespacedName,
	waiting func(holder, lease string, most time.Duration)) error {
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create a client for leases: %w", err)
	}
	byName := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, lease.Name).String()}
	list := func(ctx context.Context) (held []coordinationv1.Lease, err error) {
		all, err := client.Leases(lease.Namespace).List(ctx, byName)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list leases: %w", err)
		}
		for _, one := range all.Items {
			if holderOf(&one) != "" {
				held = append(held, one)
			}
		}
		return held, nil
	}
	before, err := list(ctx)
	if err != nil || len(before) == 0 {
		return err
	}
	most := longest(before)
	waiting(holderOf(&before[0]), before[0].Namespace+"/"+before[0].Name, most)
	err = wait.PollUntilContextTimeout(ctx, stoppedCheckInterval, most, true, func(ctx context.Context) (bool, error) {
		now, err := list(ctx)
		if err != nil {
			return false, err
		}
		return len(now) == 0, checkUnrenewed(before, now)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil
	}
	return err
}

// longest returns the longest duration of some Leases, and a second for the last renewal.
func longest(leases []coordinationv1.Lease) time.Duration {
	most := DefaultLeaseDuration
	for i := range leases {
		most = max(most, time.Duration(ptr.Deref(leases[i].Spec.LeaseDurationSeconds, 0))*time.Second)
	}
	return most + time.Second
}

// checkUnrenewed returns an error if a Lease was renewed.
func checkUnrenewed(before, now []coordinationv1.Lease) error {
	renewals := map[types.UID]*metav1.MicroTime{}
	for i := range before {
		renewals[before[i].UID] = before[i].Spec.RenewTime
	}
	for i := range now {
		l := &now[i]
		if earlier, known := renewals[l.UID]; known && earlier.Equal(l.Spec.RenewTime) {
			continue
		}
		return fmt.Errorf("%s still runs: it renews the Lease %s/%s; stop it first", holderOf(l), l.Namespace, l.Name)
	}
	return nil
}
