package handwritten

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

type thingReconciler struct {
	client.Client
	recorder *probe.Recorder
	resync   time.Duration
}

// setUp ignores the parent's own status writes: they change nothing that
// Reconcile reads.
func (r *thingReconciler) setUp(ctx context.Context, manager ctrl.Manager, options Options) error {
	b := ctrl.NewControllerManagedBy(manager).
		For(&thing.Thing{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: options.Workers})
	if options.Related {
		if err := manager.GetFieldIndexer().IndexField(ctx, &thing.Thing{}, sharedField, sharedOf); err != nil {
			return fmt.Errorf("index things by %s: %w", sharedField, err)
		}
		b.Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.readersOf))
	}
	return b.Complete(r)
}

// Reconcile makes the children and the status of one Thing what they should be.
func (r *thingReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	at := time.Now()
	var parent thing.Thing
	if err := r.Get(ctx, req.NamespacedName, &parent); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.recorder.Entered(parent.Name, parent.Spec.Value, at)
	if !parent.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if err := r.readShared(ctx, &parent, at); err != nil {
		return ctrl.Result{}, err
	}
	for j := range parent.Spec.Children {
		if err := r.applyChild(ctx, &parent, j); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.updateStatus(ctx, &parent); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.resync}, nil
}

func (r *thingReconciler) applyChild(ctx context.Context, parent *thing.Thing, j int) error {
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: parent.Namespace,
		Name:      thing.ChildName(parent.Name, j),
	}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		child.Data = parent.Spec.Data(child.Name)
		return controllerutil.SetControllerReference(parent, child, r.Scheme())
	})
	if err != nil {
		return fmt.Errorf("apply child %s: %w", child.Name, err)
	}
	return nil
}

func (r *thingReconciler) updateStatus(ctx context.Context, parent *thing.Thing) error {
	want := thing.Status{
		Ready:              parent.Spec.Children,
		Value:              parent.Spec.Value,
		ObservedGeneration: parent.Generation,
	}
	if parent.Status == want {
		return nil
	}
	before := parent.DeepCopy()
	parent.Status = want
	err := client.IgnoreNotFound(r.Status().Patch(ctx, parent, client.MergeFrom(before)))
	if err != nil {
		return fmt.Errorf("update status: %w", err)
	}
	return nil
}
