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

// CheckStopped returns an error if a process renews the Lease of this name, in a namespace or in all of them. A process
// that stops empties its Lease. One that was killed does not: then CheckStopped watches for the duration of the Lease,
// since clocks differ. Waiting is called before it does.
func CheckStopped(ctx context.Context, config *rest.Config, lease types.NamespacedName,
	waiting func(holder, lease string, most time.Duration)) error {
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create a client for leases: %w", err)
	}
	byName := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, lease.Name).String()}
	all, err := client.Leases(lease.Namespace).List(ctx, byName)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	for i := range all.Items {
		held := &all.Items[i]
		if holderOf(held) == "" {
			continue
		}
		most := max(DefaultLeaseDuration, time.Duration(ptr.Deref(held.Spec.LeaseDurationSeconds, 0))*time.Second) + time.Second
		waiting(holderOf(held), held.Namespace+"/"+held.Name, most)
		if err := awaitExpiry(ctx, client.Leases(held.Namespace), held, most); err != nil {
			return err
		}
	}
	return nil
}

// awaitExpiry returns an error if a Lease is renewed.
func awaitExpiry(ctx context.Context, client coordination.LeaseInterface, held *coordinationv1.Lease, most time.Duration) error {
	err := wait.PollUntilContextTimeout(ctx, stoppedCheckInterval, most, true, func(ctx context.Context) (bool, error) {
		now, err := client.Get(ctx, held.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil || holderOf(now) == "":
			return err == nil, err
		case now.UID == held.UID && now.Spec.RenewTime.Equal(held.Spec.RenewTime):
			return false, nil
		}
		return false, fmt.Errorf("%s still runs: it renews the Lease %s/%s; stop it first", holderOf(now), now.Namespace, now.Name)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil
	}
	return err
}
