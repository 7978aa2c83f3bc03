// Command cmd is the operator of the comparison that is written as kubebuilder has
// one write it. What is here is scaffolded but for the address of the rate service
// and the number of reconciles at once, and without what a test of the process has
// no use for: probes, webhooks, certificates, metrics behind authentication.
package main

import (
	"flag"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "github.com/setpoint-dev/setpoint/test/bench/compare/kubebuilder/api/v1"
	"github.com/setpoint-dev/setpoint/test/bench/compare/kubebuilder/internal/controller"
	"github.com/setpoint-dev/setpoint/test/bench/compare/kubebuilder/internal/rates"
)

func main() {
	address := flag.String("rates", os.Getenv("RATES"), "address of the rate service")
	workers := flag.Int("workers", 1, "reconciles at once")
	metrics := flag.String("metrics-bind-address", "0", "where metrics are served; 0 serves none")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	log := ctrl.Log.WithName("setup")

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			log.Error(err, "register the kinds")
			os.Exit(1)
		}
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: *metrics},
	})
	if err != nil {
		log.Error(err, "create the manager")
		os.Exit(1)
	}
	reconciler := &controller.ExchangeRateReconciler{
		Client:   manager.GetClient(),
		Scheme:   manager.GetScheme(),
		Recorder: manager.GetEventRecorder("exchangerate"),
		Rates:    &rates.Service{Address: *address},
	}
	if err := reconciler.SetupWithManager(manager, *workers); err != nil {
		log.Error(err, "create the controller")
		os.Exit(1)
	}
	if err := manager.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Error(err, "run the manager")
		os.Exit(1)
	}
}
