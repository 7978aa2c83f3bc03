package admission_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/must"
)

const (
	secretPath = "/api/v1/namespaces/ops/secrets/setpoint-admission"
	day        = 24 * time.Hour
)

// certificateTest is a Keeper at work, which follows what is stored.
type certificateTest struct {
	*certs.Manager

	clock *clocktesting.FakeClock
}

func newTestManager(t *testing.T, o certs.Options) *certificateTest {
	t.Helper()
	fake := clocktesting.NewFakeClock(time.Now())
	o.Names, o.Clock, o.Log = []string{"setpoint.ops.svc"}, fake, slog.New(slog.DiscardHandler)
	k := &certificateTest{certs.NewManager(o), fake}
	run(t, func(ctx context.Context) {
		if err := k.Watch(ctx); err != nil {
			t.Error(err)
		}
	})
	return k
}

// newSecretManager is a Keeper of a replica in the cluster.
func newSecretManager(t *testing.T, c *fakeAPIServer) *certificateTest {
	t.Helper()
	return newTestManager(t, certs.Options{
		Secret: types.NamespacedName{Namespace: "ops", Name: "setpoint-admission"}, Store: c.store(), Client: c.client(),
	})
}

// run runs do until the test ends or stop is called.
func run(t *testing.T, do func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { do(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return stop
}

// isTrusted says whether there is a certificate that the bundle vouches for.
func (k *certificateTest) isTrusted() bool {
	c, err := k.ServingCertificate()
	return err == nil && trustsCertificate(k.Bundle(), c.Leaf, k.clock.Now())
}

func trustsCertificate(bundle []byte, c *x509.Certificate, at time.Time) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: "setpoint.ops.svc", CurrentTime: at})
	return err == nil
}

// serial tells one serving certificate from another.
func (k *certificateTest) serial() string {
	c, err := k.ServingCertificate()
	if err != nil {
		return err.Error()
	}
	return c.Leaf.SerialNumber.String()
}

func (k *certificateTest) authorities() int {
	return bytes.Count(k.Bundle(), []byte("BEGIN CERTIFICATE"))
}

// All replicas have what the leader makes, and the same after each renewal.
func TestCertificatesInASecret(t *testing.T) {
	c := newFakeAPIServer(t)
	leader, standby := newSecretManager(t, c), newSecretManager(t, c)
	if _, err := standby.ServingCertificate(); err == nil {
		t.Error("a certificate exists before one was issued")
	}
	changed := standby.Changed()
	run(t, leader.Renew)
	<-changed
	must.Eventually(t, "both have it", func() bool { return leader.isTrusted() && standby.isTrusted() && leader.serial() == standby.serial() })

	o := c.get(secretPath)
	if o.Object["type"] != "kubernetes.io/tls" || o.GetLabels()["app.kubernetes.io/managed-by"] != "setpoint" {
		t.Errorf("stored as %v", o.Object)
	}

	first := leader.serial()
	same, _ := leader.ServingCertificate()
	c.edit(secretPath, func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"theirs": "stays"}) })
	leader.clock.Step(61 * day)
	standby.clock.Step(61 * day)
	must.Eventually(t, "it is renewed", func() bool { return leader.serial() != first && standby.serial() == leader.serial() })
	if !leader.isTrusted() || same.Leaf.SerialNumber.String() != first {
		t.Error("the renewed one is not sound, or the old one was changed")
	}
	if c.get(secretPath).GetAnnotations()["theirs"] != "stays" {
		t.Error("an annotation was removed")
	}
	if n := len(c.written()); n != 2 {
		t.Errorf("wrote %v", c.written())
	}
}

// A Secret whose CA and certificate expired while nothing ran is renewed, and so is an expired certificate of a
// replica that was suspended.
func TestExpiredCertificates(t *testing.T) {
	c := newFakeAPIServer(t)
	first := newSecretManager(t, c)
	stop := run(t, first.Renew)
	must.Eventually(t, "there is one", first.isTrusted)
	stop()
	for _, later := range []time.Duration{91 * day, 1000 * day} {
		next := newSecretManager(t, c)
		next.clock.Step(later)
		must.Eventually(t, "the stored one is read", func() bool { return next.serial() == first.serial() })
		if next.isTrusted() {
			t.Errorf("it is valid after %s", later)
		}
		stop := run(t, next.Renew)
		must.Eventually(t, "it is renewed", next.isTrusted)
		stop()
		first = next
	}
}

// A CA is followed only when the configurations carry the new one, and every
// certificate on the way is one that the bundle before vouches for.
func TestCARotation(t *testing.T) {
	c := newFakeAPIServer(t)
	k := newSecretManager(t, c)
	run(t, k.Renew)
	must.Eventually(t, "there is one", k.isTrusted)
	k.clock.Step(500 * day)
	must.Eventually(t, "a new CA joins", func() bool { return k.authorities() == 2 })
	served, both := k.serial(), k.Bundle()

	k.Propagated([]byte("another"), k.clock.Now())
	k.Propagated(both, k.clock.Now())
	must.Eventually(t, "it waits", k.clock.HasWaiters)
	if k.serial() != served {
		t.Error("it did not wait until the bundle has settled")
	}
	k.clock.Step(6 * time.Minute)
	must.Eventually(t, "the new one signs", func() bool { return k.serial() != served })
	if !k.isTrusted() || !bytes.Equal(k.Bundle(), both) {
		t.Error("the bundle changed as well")
	}
	k.clock.Step(300 * day)
	must.Eventually(t, "the old one leaves", func() bool { return k.authorities() == 1 && k.isTrusted() })
}

// Changes to the Secret are repaired at once, and clients that trust the former bundle
// still trust the served certificate.
func TestSecretIsRepaired(t *testing.T) {
	data := func(key, value string) func(*fakeAPIServer) {
		return func(c *fakeAPIServer) { c.setSecret(key, value) }
	}
	for name, spoil := range map[string]func(*fakeAPIServer){
		"deleted":   func(c *fakeAPIServer) { c.remove(secretPath) },
		"nonsense":  data("tls.crt", "nonsense"),
		"no keys":   data("ca.key", ""),
		"no bundle": data("ca.crt", "-"),
		"emptied": func(c *fakeAPIServer) {
			c.edit(secretPath, func(o *unstructured.Unstructured) { delete(o.Object, "data") })
		},
		"unlabelled": func(c *fakeAPIServer) { c.edit(secretPath, func(o *unstructured.Unstructured) { o.SetLabels(nil) }) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeAPIServer(t)
			leader, standby := newSecretManager(t, c), newSecretManager(t, c)
			run(t, leader.Renew)
			must.Eventually(t, "both have one", func() bool { return leader.isTrusted() && standby.isTrusted() })
			trusted, writes := leader.Bundle(), len(c.written())

			spoil(c)
			must.Eventually(t, "it is mended", func() bool { return len(c.written()) == writes+1 })
			want := 1
			if name == "deleted" {
				want = 2 // Deleting keys requests new ones.
			}
			must.Eventually(t, "a new CA follows, if it is to", func() bool { return leader.authorities() == want })
			must.Eventually(t, "both have the same", func() bool { return bytes.Equal(leader.Bundle(), standby.Bundle()) && standby.isTrusted() })
			cert, _ := standby.ServingCertificate()
			if !trustsCertificate(trusted, cert.Leaf, leader.clock.Now()) {
				t.Error("who trusted the bundle before does not trust what is served now")
			}
			newcomer := newSecretManager(t, c)
			must.Eventually(t, "another one can read it", newcomer.isTrusted)
		})
	}
}

// Of two that both think they lead one writes, and both serve the same.
func TestCertificateManagersRace(t *testing.T) {
	c := newFakeAPIServer(t)
	var keepers []*certificateTest
	for range 4 {
		keepers = append(keepers, newSecretManager(t, c))
	}
	for _, k := range keepers {
		run(t, k.Renew)
	}
	agreed := func(but string) func() bool {
		return func() bool {
			return !slices.ContainsFunc(keepers, func(k *certificateTest) bool {
				return !k.isTrusted() || k.serial() != keepers[0].serial() || k.serial() == but || k.Err() != nil
			})
		}
	}
	must.Eventually(t, "all have the same", agreed(""))
	first := keepers[0].serial()
	for _, k := range keepers {
		k.clock.Step(61 * day)
	}
	must.Eventually(t, "all have the next", agreed(first))
	if n := len(c.written()); n != 2 {
		t.Errorf("%d writes: %v", n, c.written())
	}
}

// What may not be read or written is said, and works once it may.
func TestCertificateManagerForbidden(t *testing.T) {
	for _, c := range []struct {
		method, want string
	}{
		{http.MethodPost, "create Secret ops/setpoint-admission (or create it empty: kubectl create secret generic setpoint-admission -n ops): secrets is forbidden: no access"},
		{http.MethodGet, "read Secret ops/setpoint-admission: watch secrets.v1 in ops named setpoint-admission"},
	} {
		t.Run(c.method, func(t *testing.T) {
			cluster := newFakeAPIServer(t)
			cluster.refuse = func(r *http.Request) error {
				if r.Method == c.method {
					return forbidden("secrets")
				}
				return nil
			}
			k := newSecretManager(t, cluster)
			run(t, k.Renew)
			must.Eventually(t, "it is said", func() bool { return k.Err() != nil && strings.HasPrefix(k.Err().Error(), c.want) })
			if _, err := k.ServingCertificate(); err == nil || err.Error() != k.Err().Error() {
				t.Errorf("serving fails with %v", err)
			}
			cluster.with(func() { cluster.refuse = nil })
			must.Eventually(t, "it works", func() bool {
				k.clock.Step(time.Minute)
				return k.isTrusted() && k.Err() == nil
			})
		})
	}
}

// A Secret with another owner is not changed.
func TestForeignSecretsAreKept(t *testing.T) {
	c := newFakeAPIServer(t)
	c.create(secretPath, `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"ops","name":"setpoint-admission"},"data":{"tls.crt":"YQ=="}}`)
	k := newSecretManager(t, c)
	run(t, k.Renew)
	must.Eventually(t, "it is said", func() bool { return k.Err() != nil && strings.Contains(k.Err().Error(), "does not belong to Setpoint") })
	if n := c.written(); len(n) != 0 {
		t.Errorf("wrote %v", n)
	}
	c.remove(secretPath)
	must.Eventually(t, "it is made", k.isTrusted)
}

func TestCertificatesInMemory(t *testing.T) {
	k := newTestManager(t, certs.Options{Lifetimes: certs.Lifetimes{Certificate: time.Hour}})
	must.Eventually(t, "there is one", k.isTrusted)
	first := k.serial()
	stop := run(t, k.Renew)
	must.Eventually(t, "it waits", k.clock.HasWaiters)
	k.clock.Step(41 * time.Minute)
	must.Eventually(t, "it is renewed", func() bool { return k.serial() != first })
	stop()
	next := k.serial()
	k.clock.Step(2 * time.Hour)
	run(t, k.Renew)
	must.Eventually(t, "the next who leads renews it", func() bool { return k.serial() != next && k.isTrusted() })
}

// Fault S2. All replicas have the same key, and so do later ones. While a key is created or
// replaced, the server accepts the paths of both the old and the new key.
func TestReplicasShareOnePathKey(t *testing.T) {
	c := newFakeAPIServer(t)
	leader, standby := newSecretManager(t, c), newSecretManager(t, c)
	run(t, leader.Renew)
	both := func(k *certificateTest) admission.PathKey {
		key := leader.PathKeys().Key
		if k.PathKeys().Key != key {
			return ""
		}
		return key
	}
	must.Eventually(t, "both have a key", func() bool { return both(standby) != "" })
	first := both(standby)

	c.setSecret("path.key", "") // As it was before there were keys, or for who wants another one.
	must.Eventually(t, "both have another key", func() bool { return both(standby) != "" && both(standby) != first })
	for _, k := range []*certificateTest{leader, standby} {
		if former := k.PathKeys().Previous; !slices.Equal(former, []admission.PathKey{first}) {
			t.Errorf("former keys: %q", former)
		}
		k.clock.Step(5*time.Minute + time.Second)
		if former := k.PathKeys().Previous; len(former) > 0 {
			t.Errorf("former keys after five minutes: %q", former)
		}
	}
	newcomer := newSecretManager(t, c)
	must.Eventually(t, "another one has it too", func() bool { return both(newcomer) != "" })

	c.remove(secretPath)
	must.Eventually(t, "it is there again", func() bool { return c.get(secretPath) != nil && leader.authorities() == 2 })
	if both(newcomer) == "" {
		t.Error("the paths have changed with the certificates")
	}
}
