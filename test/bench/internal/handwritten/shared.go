package handwritten

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// sharedField is what Things are indexed by, so that those who read a ConfigMap
// are found without looking at all of them.
const sharedField = "spec.shared"

func sharedOf(object client.Object) []string {
	if parent, ok := object.(*thing.Thing); ok && parent.Spec.Shared != "" {
		return []string{parent.Spec.Shared}
	}
	return nil
}

// readersOf finds the Things that read a ConfigMap.
func (r *thingReconciler) readersOf(ctx context.Context, shared client.Object) []ctrl.Request {
	var readers thing.ThingList
	err := r.List(ctx, &readers, client.InNamespace(shared.GetNamespace()),
		client.MatchingFields{sharedField: shared.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "list the readers of a ConfigMap", "name", shared.GetName())
		return nil
	}
	requests := make([]ctrl.Request, len(readers.Items))
	for i := range readers.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&readers.Items[i])
	}
	return requests
}

// readShared reads the ConfigMap that a Thing names.
func (r *thingReconciler) readShared(ctx context.Context, parent *thing.Thing, at time.Time) error {
	if parent.Spec.Shared == "" {
		return nil
	}
	var shared corev1.ConfigMap
	key := client.ObjectKey{Namespace: parent.Namespace, Name: parent.Spec.Shared}
	if err := r.Get(ctx, key, &shared); err != nil {
		return fmt.Errorf("read the shared ConfigMap: %w", err)
	}
	r.recorder.Shown(parent.Name, shared.Data[thing.ValueKey], at)
	return nil
}
