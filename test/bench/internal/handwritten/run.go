// Package handwritten is the controller that Setpoint is compared with: what an
// experienced person would write with controller-runtime for the same work, with
// nothing left slow on purpose. It runs as a process of its own.
package handwritten

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// Options say where and how fast.
type Options struct {
	// Kubeconfig is the cluster to work on.
	Kubeconfig string
	// Workers is the number of reconciles at once.
	Workers int
	// Resync reconciles each parent again after that time; 0 does not.
	Resync time.Duration
	// Related watches the ConfigMaps that parents read, too.
	Related bool
}

// Run runs the controller until ctx is done. It prints the address of its probe
// as one line of JSON.
func Run(ctx context.Context, options Options) error {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	manager, err := newManager(options.Kubeconfig)
	if err != nil {
		return err
	}
	recorder := &probe.Recorder{}
	reconciler := &thingReconciler{Client: manager.GetClient(), recorder: recorder, resync: options.Resync}
	if err := reconciler.setUp(ctx, manager, options); err != nil {
		return fmt.Errorf("set up the controller: %w", err)
	}
	if err := announceReady(ctx, manager.GetCache(), recorder); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- probe.Serve(ctx, recorder, http.NewServeMux(), probe.AnyAddress, os.Stdout) }()
	if err := manager.Start(ctx); err != nil {
		return fmt.Errorf("run the manager: %w", err)
	}
	return <-served
}

// newManager lifts the client-side rate limit, as Setpoint does, and keeps
// managedFields out of the cache, as a careful author would.
func newManager(kubeconfig string) (ctrl.Manager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the built-in kinds: %w", err)
	}
	if err := thing.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register things: %w", err)
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Cache:   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, fmt.Errorf("create the manager: %w", err)
	}
	return manager, nil
}

// announceReady makes the caches exist before the manager starts, so that
// "synced" speaks of them, and says ready when they are.
func announceReady(ctx context.Context, objects cache.Cache, recorder *probe.Recorder) error {
	for _, kind := range []client.Object{&thing.Thing{}, &corev1.ConfigMap{}} {
		if _, err := objects.GetInformer(ctx, kind); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	go func() {
		if objects.WaitForCacheSync(ctx) {
			recorder.SetReady()
		}
	}()
	return nil
}
