package apptest_test

import (
	"cmp"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/controlplane/apptest"
)

// soon is a patience for what is not going to happen.
const soon = 300 * time.Millisecond

func newRate(name, currency string) *ExchangeRate {
	rate := &ExchangeRate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	rate.Spec.Currency = currency
	return rate
}

// handled waits until what was done about a rate is on record.
func handled(c *apptest.Cluster, name string) {
	apptest.Await(c, name, func(r *ExchangeRate) error {
		if len(r.Annotations) == 0 || r.Status.Rate == "" {
			return errors.New("not handled yet")
		}
		return nil
	})
}

// idle is an app that only looks.
func idle(name string) *setpoint.App {
	app := setpoint.New(name)
	maps := setpoint.For[corev1.ConfigMap](app)
	maps.Handle("look", func(context.Context, *setpoint.Call[corev1.ConfigMap]) error { return nil }).OnEvent()
	return app
}

// What was changed while the app was away is dealt with, and nothing twice.
func TestAppIsRestarted(t *testing.T) {
	t.Parallel()
	address, called := exchange(t)
	cluster := plane.Start(t, newApp(address))
	for _, name := range []string{"changed", "same"} {
		cluster.Apply(newRate(name, "USD"))
		handled(cluster, name)
	}
	cluster.Stop()
	apptest.Update(cluster, "changed", func(r *ExchangeRate) { r.Spec.Currency = "CHF" })
	cluster.Start(newApp(address))
	apptest.Await(cluster, "changed", rateIs("0.94"))
	if n := called.Load(); n != 3 {
		t.Errorf("asked for a rate %d times, not once for each that is to be published", n)
	}
}

// Tests that are parallel see nothing of each other's objects.
func TestAppsAreNamespaced(t *testing.T) {
	t.Parallel()
	var called [2]*atomic.Int32
	var clusters [2]*apptest.Cluster
	for i := range clusters {
		var address string
		address, called[i] = exchange(t)
		clusters[i] = plane.Start(t, newApp(address))
	}
	if clusters[0].Namespace() == clusters[1].Namespace() {
		t.Fatalf("both have the namespace %s", clusters[0].Namespace())
	}
	clusters[0].Apply(newRate("mine", "USD"))
	handled(clusters[0], "mine")
	clusters[1].Apply(newRate("other", "USD"))
	handled(clusters[1], "other")
	if a, b := called[0].Load(), called[1].Load(); a != 1 || b != 1 {
		t.Errorf("asked %d and %d times", a, b)
	}
}

func TestInvalidApp(t *testing.T) {
	t.Parallel()
	app := setpoint.New("Wrong")
	setpoint.For[ExchangeRate](app)
	said := mustFail(t, func(t testing.TB) { plane.Start(t, app) })
	expect(t, said, "start the app: the app Wrong cannot run", "lower-case letters", "install a CustomResourceDefinition of kind ExchangeRate")
}

func TestAppNeverReady(t *testing.T) {
	t.Parallel()
	app := idle("patient")
	app.OnStart(func(ctx context.Context) error { <-ctx.Done(); return nil })
	said := mustFail(t, func(t testing.TB) { plane.New(t).Within(soon).Start(app) })
	expect(t, said, "start the app: it is not ready after "+soon.String())
}

func TestAppCannotRun(t *testing.T) {
	t.Parallel()
	said := mustFail(t, func(t testing.TB) {
		plane.Start(t, idle("deaf"), func(o *setpoint.Options) { o.Address = usedAddress(t) })
	})
	expect(t, said, "start the app: ", "address already in use")
	if strings.Count(said, "already in use") != 1 {
		t.Errorf("it was said more than once:\n%s", said)
	}
}

// usedAddress returns an address that is already in use.
func usedAddress(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestAppFailsToStop(t *testing.T) {
	t.Parallel()
	app := idle("sulky")
	app.OnStop(func(context.Context) error { return errors.New("the door is stuck") })
	expect(t, mustFail(t, func(t testing.TB) { plane.Start(t, app) }), "stop the app: stop: the door is stuck")
}

func TestLogIsPartOfTheOutput(t *testing.T) {
	t.Parallel()
	said := mustPass(t, func(t testing.TB) {
		app := setpoint.New("talker")
		maps := setpoint.For[corev1.ConfigMap](app)
		heard := make(chan struct{})
		maps.Handle("talk", func(_ context.Context, c *setpoint.Call[corev1.ConfigMap]) error {
			c.Log.Info("hello")
			close(heard)
			return nil
		}, setpoint.FieldIs("metadata.name", "mine")).OnCreate()
		cluster := plane.Start(t, app)
		cluster.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}})
		cluster.Eventually(func() error {
			select {
			case <-heard:
				return nil
			default:
				return errors.New("no hello yet")
			}
		})
	})
	expect(t, said, "msg=hello", "controller started", "controller stopped")
}

// Neither two apps in all namespaces, nor one of them and another.
func TestAllNamespacesIsExclusive(t *testing.T) {
	first := plane.Start(t, idle("first"), apptest.AllNamespaces)
	for _, options := range [][]apptest.Option{nil, {apptest.AllNamespaces}} {
		said := mustFail(t, func(t testing.TB) { plane.Start(t, idle("second"), options...) })
		expect(t, said, "TestAllNamespacesIsExclusive runs an app in all namespaces", "do not run them in parallel")
	}
	first.Start(idle("another"), apptest.AllNamespaces) // Those of one test may.
	mustPass(t, func(t testing.TB) {
		other := plane.New(t) // So may be shared by tests that have none of their own.
		other.Apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: mine}}")
	})
}

func TestAllNamespacesDoesNotBlock(t *testing.T) {
	plane.Start(t, idle("first"))
	said := mustFail(t, func(t testing.TB) { plane.Start(t, idle("second"), apptest.AllNamespaces) })
	expect(t, said, "TestAllNamespacesDoesNotBlock runs an app, and this test runs one in all namespaces")
}

// What an app in all namespaces has left would be found by the next one.
func TestCleanup(t *testing.T) {
	const volume = "{apiVersion: v1, kind: PersistentVolume, metadata: {name: left, finalizers: [example.com/kept]}, " +
		"spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /none}}}"
	for range 2 {
		mustPass(t, func(t testing.TB) {
			called := make(chan string, 100)
			c := plane.Start(t, finalizerApp(called), apptest.AllNamespaces)
			c.Apply(volume, "{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, labels: {keep: me}}}")
			apptest.Await(c, "kept", func(cm *corev1.ConfigMap) error {
				if len(cm.Finalizers) == 0 {
					return errors.New("it has no finalizer")
				}
				return nil
			})
			apptest.Delete[corev1.ConfigMap](c, "kept")
			if namespace := <-called; namespace != c.Namespace() {
				t.Errorf("called for an object in %s, which a former test has left", namespace)
			}
			if apptest.Get[corev1.PersistentVolume](c, "left").DeletionTimestamp != nil {
				t.Error("the volume is that of the former test")
			}
		})
	}
}

// finalizerApp is an app that lets go of nothing, and says of which namespaces.
func finalizerApp(called chan<- string) *setpoint.App {
	app := setpoint.New("keeper")
	maps := setpoint.For[corev1.ConfigMap](app, setpoint.Labels("keep=me"))
	maps.Handle("keep", func(_ context.Context, c *setpoint.Call[corev1.ConfigMap]) error {
		called <- c.Object.Namespace
		return errors.New("it stays")
	}).OnDelete()
	return app
}

// plane is what the tests here share, parallel as they are. It is made of the
// binary that $SETPOINT names, else of the one that `make build` has made.
var plane = apptest.ControlPlane{Executable: cmp.Or(os.Getenv("SETPOINT"), filepath.Join("..", "..", "bin", "setpoint"))}

func TestMain(m *testing.M) { plane.Main(m) }
