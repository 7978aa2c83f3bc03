//go:build envtest

package controller_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/setpoint-dev/setpoint/test/bench/compare/kubebuilder/api/v1"
	"github.com/setpoint-dev/setpoint/test/bench/compare/kubebuilder/internal/controller"
	"github.com/setpoint-dev/setpoint/test/bench/compare/kubebuilder/internal/rates"
)

// startManager runs the reconciler on the control plane of envtest.
func startManager(t *testing.T) client.Client {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	crd := filepath.Join("..", "..", "..", "..", "..", "..", "examples", "exchangerate", "operators.brennerm.github.io_exchangerates.yaml")
	environment := &envtest.Environment{CRDDirectoryPaths: []string{crd}, ErrorIfCRDPathMissing: true}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = environment.Stop() })

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"rates":{"USD":1.19}}`))
	}))
	t.Cleanup(service.Close)
	reconciler := &controller.ExchangeRateReconciler{
		Client: manager.GetClient(), Scheme: scheme, Recorder: manager.GetEventRecorder("exchangerate"), Rates: &rates.Service{Address: service.URL},
	}
	if err := reconciler.SetupWithManager(manager, 1); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return manager.GetClient()
}

// A rate is published, and the garbage collector, which envtest does not have, deletes its
// ConfigMap with it.
func TestPublish(t *testing.T) {
	cluster := startManager(t)
	rate := &v1.ExchangeRate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "rate-"}}
	rate.Spec.Currency = "USD"
	if err := cluster.Create(t.Context(), rate); err != nil {
		t.Fatal(err)
	}
	await := func(what string, done func(*corev1.ConfigMap, error) bool) {
		t.Helper()
		var configMap corev1.ConfigMap
		if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
			return done(&configMap, cluster.Get(ctx, client.ObjectKeyFromObject(rate), &configMap)), nil
		}); err != nil {
			t.Fatalf("not %s: %v; %+v", what, err, configMap.Data)
		}
	}
	await("published", func(m *corev1.ConfigMap, err error) bool { return err == nil && m.Data["rate"] == "1.19" })
	if err := cluster.Delete(t.Context(), rate); err != nil {
		t.Fatal(err)
	}
	await("deleted", func(_ *corev1.ConfigMap, err error) bool { return client.IgnoreNotFound(err) == nil && err != nil })
}
