package admission_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// A provided Secret is followed and never written. An unusable one is reported, and the
// previous certificate stays in use.
func TestProvidedSecret(t *testing.T) {
	c := newFakeAPIServer(t)
	leader, standby := newProvidedManager(t, c), newProvidedManager(t, c)
	run(t, leader.Renew)
	must.Eventually(t, "it is said", func() bool {
		return strings.HasPrefix(fmt.Sprint(leader.Err()), "Secret ops/setpoint-admission does not exist: create it with tls.crt, tls.key and ca.crt")
	})

	c.create(secretPath, secretOf(t, certificateFrom(t)))
	agree := func() bool { return leader.isTrusted() && standby.isTrusted() && leader.serial() == standby.serial() }
	must.Eventually(t, "both have it", agree)
	if leader.Err() != nil || leader.PathKeys().Key != standby.PathKeys().Key || leader.PathKeys().Key == "" {
		t.Errorf("%v; keys %q and %q", leader.Err(), leader.PathKeys().Key, standby.PathKeys().Key)
	}
	first, data := leader.serial(), certificateFrom(t)
	c.setSecret("tls.crt", data["tls.crt"])
	must.Eventually(t, "the half is refused", func() bool {
		return strings.HasPrefix(fmt.Sprint(leader.Err()), "Secret ops/setpoint-admission: tls.crt and tls.key:")
	})
	if leader.serial() != first || !leader.isTrusted() {
		t.Error("the previous certificate is not in use")
	}
	for key, value := range data {
		c.setSecret(key, value)
	}
	must.Eventually(t, "the whole is used", func() bool { return agree() && leader.serial() != first && leader.Err() == nil })

	leader.clock.Step(100 * day)
	must.Eventually(t, "it expires", func() bool { return strings.Contains(fmt.Sprint(leader.Err()), "has expired") })
	if n := c.written(); len(n) != 0 {
		t.Errorf("wrote %v", n)
	}
}

func newProvidedManager(t *testing.T, c *fakeAPIServer) *certificateTest {
	t.Helper()
	return newTestManager(t, certs.Options{
		Secret:   types.NamespacedName{Namespace: "ops", Name: "setpoint-admission"},
		Provided: true, ServerName: "setpoint.ops.svc", Store: c.store(), Client: c.client(),
	})
}

// certificateFrom returns a certificate of a CA of its own, as a user would provide it.
func certificateFrom(t *testing.T) map[string]string {
	t.Helper()
	maker := newTestManager(t, certs.Options{})
	run(t, maker.Renew)
	must.Eventually(t, "there is one", maker.isTrusted)
	pair := must.Get(maker.ServingCertificate()).In(t)
	key := must.Get(keyutil.MarshalPrivateKeyToPEM(pair.PrivateKey)).In(t)
	leaf := must.Get(cert.EncodeCertificates(pair.Leaf)).In(t)
	return map[string]string{"tls.crt": string(leaf), "tls.key": string(key), "ca.crt": string(maker.Bundle())}
}

func secretOf(t *testing.T, data map[string]string) string {
	t.Helper()
	encoded := map[string]string{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	text := must.Get(json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": encoded,
		"metadata": map[string]any{"namespace": "ops", "name": "setpoint-admission"},
	})).In(t)
	return string(text)
}
