// Package controller is the comparison's reconciler, as an experienced user of
// controller-runtime would write it. It imports nothing of Setpoint.
package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	v1 "github.com/setpoint-dev/setpoint/test/bench/compare/kubebuilder/api/v1"
	"github.com/setpoint-dev/setpoint/test/bench/compare/kubebuilder/internal/rates"
)

// ExchangeRateReconciler keeps the ConfigMaps of ExchangeRates.
type ExchangeRateReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
	Rates    *rates.Service
}

const (
	// pollInterval is the time between two requests for a rate.
	pollInterval = time.Hour
	// rateTimeout limits a request to the rate service.
	rateTimeout = 5 * time.Second
	// handled is the condition that says how the asking went.
	handled = "Handled"
)

// +kubebuilder:rbac:groups=operators.brennerm.github.io,resources=exchangerates,verbs=get;list;watch
// +kubebuilder:rbac:groups=operators.brennerm.github.io,resources=exchangerates/status,verbs=get;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager leaves out what needs no look: an ExchangeRate's own status, and
// a ConfigMap that has just been made.
func (r *ExchangeRateReconciler) SetupWithManager(manager ctrl.Manager, workers int) error {
	if err := r.Rates.Check(); err != nil {
		return err
	}
	made := predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}
	return ctrl.NewControllerManagedBy(manager).
		For(&v1.ExchangeRate{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}, builder.WithPredicates(made)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile asks for the rate and brings ConfigMap and status in line with it.
func (r *ExchangeRateReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var object v1.ExchangeRate
	if err := r.Get(ctx, req.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !object.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	before := object.DeepCopy()
	failure := r.publish(ctx, &object)
	r.recordFailure(&object, failure)
	if !equality.Semantic.DeepEqual(before.Status, object.Status) {
		if err := r.Status().Patch(ctx, &object, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	if failure != nil {
		return ctrl.Result{}, failure
	}
	return ctrl.Result{RequeueAfter: pollInterval}, nil
}

// publish requests the rate and writes the ConfigMap. When the service does not
// respond, publish keeps the last good rate, and restores a deleted ConfigMap.
func (r *ExchangeRateReconciler) publish(ctx context.Context, object *v1.ExchangeRate) error {
	asking, cancel := context.WithTimeout(ctx, rateTimeout)
	defer cancel()
	rate, failure := r.Rates.Rate(asking, object.Spec.Currency)
	if failure == nil {
		object.Status.Rate, object.Status.Currency = rate, object.Spec.Currency
	}
	if object.Status.Rate == "" {
		return failure
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, configMap, func() error {
		configMap.Data = map[string]string{"rate": object.Status.Rate, "currency": object.Status.Currency}
		return controllerutil.SetControllerReference(object, configMap, r.Scheme)
	})
	if err != nil {
		return err
	}
	return failure
}

// recordFailure says in a condition, and in an event when it is news, how it went.
func (r *ExchangeRateReconciler) recordFailure(object *v1.ExchangeRate, failure error) {
	now := metav1.Condition{
		Type: handled, Status: metav1.ConditionTrue, Reason: "Published",
		Message:            "a euro is " + object.Status.Rate + " " + object.Status.Currency,
		ObservedGeneration: object.Generation,
	}
	kind := corev1.EventTypeNormal
	if failure != nil {
		now.Status, now.Reason, now.Message = metav1.ConditionFalse, "RateUnknown", failure.Error()
		kind = corev1.EventTypeWarning
	}
	if meta.SetStatusCondition(&object.Status.Conditions, now) {
		r.Recorder.Eventf(object, nil, kind, now.Reason, "Publish", "%s", now.Message)
	}
}
