package credential_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/credential"
	"github.com/setpoint-dev/setpoint/internal/must"
)

var opsHook = api.ObjectReference{Namespace: "ops", Name: "hook"}

func token(key string) credential.Spec {
	return credential.Spec{Authorization: &api.Authorization{SecretRef: api.TokenKeyReference{ObjectReference: opsHook, Key: key}}}
}

// testSource is a Source that records its changes.
type testSource struct {
	*credential.Source

	t       *testing.T
	changed chan struct{}
}

func open(t *testing.T, a *apiServer, spec credential.Spec) testSource {
	t.Helper()
	must.Succeed(t, spec.Validate())
	changed := make(chan struct{}, 100)
	s := credential.Open(a.store(), spec, "", func() { changed <- struct{}{} })
	t.Cleanup(s.Close)
	return testSource{s, t, changed}
}

func (o testSource) mustCurrent() *webhook.Credentials {
	o.t.Helper()
	return must.Get(o.Current(o.t.Context())).In(o.t)
}

// expectHeader compares the Authorization header, or the error.
func (o testSource) expectHeader(want string) {
	o.t.Helper()
	c, err := o.Current(o.t.Context())
	got := fmt.Sprint(err)
	if err == nil {
		got = c.Authorization
	}
	if got != want {
		o.t.Errorf("got  %s\nwant %s", got, want)
	}
}

func (o testSource) expectChange() {
	o.t.Helper()
	select {
	case <-o.changed:
	case <-time.After(10 * time.Second):
		o.t.Fatal("changed was not called")
	}
}

func (o testSource) expectNoChange() {
	o.t.Helper()
	select {
	case <-o.changed:
		o.t.Error("changed was called without a change")
	default:
	}
}

func TestHeaders(t *testing.T) {
	basic := func(username, password string) credential.Spec {
		return credential.Spec{BasicAuth: &api.BasicAuth{SecretRef: opsHook, UsernameKey: username, PasswordKey: password}}
	}
	typed := func(kind, key string) credential.Spec {
		spec := token(key)
		spec.Authorization.Type = kind
		return spec
	}
	for _, c := range []struct {
		name string
		spec credential.Spec
		want string
	}{
		{"bearer", token("token"), "Bearer t0ken"},
		{"type", typed("Token", "token"), "Token t0ken"},
		{"basic", basic("", ""), "Basic dG9tOiBwYTpzcyA="},
		{"basic by other keys", basic("token", "password"), "Basic IHQwa2VuCjogcGE6c3Mg"},
		{"missing key", token("tokn"), "Secret ops/hook has no key tokn; add it or set another key in authorization.secretRef"},
		{"empty key", token("empty"), "Secret ops/hook: key empty: is empty"},
		{"blank key", token("blank"), "Secret ops/hook: key blank: is blank"},
		{"two lines", token("lines"), "Secret ops/hook: key lines: has more than one line; a header cannot"},
		{"colon in the name", basic("colon", ""), "Secret ops/hook: key colon: a user name cannot contain a colon"},
		{"no password", basic("", "none"), "Secret ops/hook has no key none; add it or set another key in basicAuth.secretRef"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAPI(t)
			a.secret("ops/hook", map[string]string{
				"token": " t0ken\n", "username": "tom", "password": " pa:ss ",
				"empty": "", "blank": " \n", "lines": "a\nb", "colon": "a:b",
			})
			open(t, a, c.spec).expectHeader(c.want)
		})
	}
}

func TestMissingSecretAppears(t *testing.T) {
	a := newAPI(t)
	o := open(t, a, token("token"))
	const missing = "Secret ops/hook not found; create it or set another name in authorization.secretRef"
	o.expectHeader(missing)
	a.secret("ops/hook", map[string]string{"token": "a"})
	o.expectChange()
	o.expectHeader("Bearer a")
	a.remove("secrets/ops/hook")
	o.expectChange()
	o.expectHeader(missing)
}

func TestChangedCallback(t *testing.T) {
	a := newAPI(t)
	a.secret("ops/hook", map[string]string{"token": "a"})
	o := open(t, a, token("token"))
	first := o.mustCurrent()
	o.expectNoChange()
	a.secret("ops/hook", map[string]string{"token": "a", "other": "b"})
	a.secret("ops/hook", map[string]string{"token": "b"})
	o.expectChange()
	o.expectHeader("Bearer b")
	o.expectNoChange()
	if o.mustCurrent() == first {
		t.Error("other credentials have the same pointer")
	}
	if c := o.mustCurrent(); o.mustCurrent() != c {
		t.Error("the same credentials have another pointer")
	}
}

// A new token keeps the TLS configuration, and so the connections.
func TestTLSConfigIsReused(t *testing.T) {
	a := newAPI(t)
	ca, other := newTestCA(t), newTestCA(t)
	a.secret("ops/hook", map[string]string{"token": "a", "ca.crt": ca.pem})
	spec := token("token")
	spec.CABundle = &api.CABundle{SecretRef: &api.CertificateKeyReference{ObjectReference: opsHook}}
	o := open(t, a, spec)
	first := o.mustCurrent()
	a.secret("ops/hook", map[string]string{"token": "b", "ca.crt": ca.pem})
	o.expectChange()
	if second := o.mustCurrent(); second.TLS != first.TLS || second == first {
		t.Error("a new token made a new TLS, or no new credentials")
	}
	a.secret("ops/hook", map[string]string{"token": "b", "ca.crt": other.pem})
	o.expectChange()
	if o.mustCurrent().TLS == first.TLS {
		t.Error("other certificates have the same TLS")
	}
}

func TestBrokenCertificates(t *testing.T) {
	ca := newTestCA(t)
	cert, key := ca.issue("client")
	_, foreign := ca.issue("other")
	inSecret := credential.Spec{CABundle: &api.CABundle{SecretRef: &api.CertificateKeyReference{ObjectReference: opsHook, Key: "bundle"}}}
	client := credential.Spec{ClientTLS: &api.ClientTLS{SecretRef: opsHook}}
	for _, c := range []struct {
		name string
		spec credential.Spec
		data map[string]string
		want string
	}{
		{"no PEM", inSecret, map[string]string{"bundle": "s3cret"}, "Secret ops/hook: key bundle: no PEM certificates"},
		{"key in place of a certificate", inSecret, map[string]string{"bundle": key}, "Secret ops/hook: key bundle: no PEM certificates"},
		{"pair", client, map[string]string{"tls.crt": cert, "tls.key": key}, ""},
		{"no private key", client, map[string]string{"tls.crt": cert}, "Secret ops/hook has no key tls.key; add it or set another key in clientTLS.secretRef"},
		{"pair that is none", client, map[string]string{"tls.crt": cert, "tls.key": foreign}, "Secret ops/hook: keys tls.crt and tls.key: tls: private key does not match public key"},
		{"no pair at all", client, map[string]string{"tls.crt": "s3cret", "tls.key": "s3cret"}, "Secret ops/hook: keys tls.crt and tls.key: tls: failed to find any PEM data in certificate input"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAPI(t)
			a.secret("ops/hook", c.data)
			open(t, a, c.spec).expectHeader(c.want)
		})
	}
}

func TestConfigMap(t *testing.T) {
	ca := newTestCA(t)
	for name, fields := range map[string]map[string]any{
		"data":       {"data": map[string]string{"ca.crt": ca.pem}},
		"binaryData": {"binaryData": map[string][]byte{"ca.crt": []byte(ca.pem)}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			a.put("configmaps/ops/hook", fields)
			o := open(t, a, credential.Spec{CABundle: &api.CABundle{ConfigMapRef: &api.CertificateKeyReference{ObjectReference: opsHook}}})
			if o.mustCurrent().TLS.RootCAs == nil {
				t.Error("no certificates")
			}
		})
	}
}

// Forbidden objects fail at once, and recover when access is granted.
func TestForbidden(t *testing.T) {
	a := newAPI(t)
	a.setAllowed("secrets/ops/hook", false)
	a.secret("ops/hook", map[string]string{"token": "a"})
	o := open(t, a, token("token"))
	_, err := o.Current(t.Context())
	if text := fmt.Sprint(err); !strings.HasPrefix(text, "read Secret ops/hook: ") || !strings.Contains(text, "secrets/ops/hook is forbidden") {
		t.Errorf("got %v", err)
	}
	a.setAllowed("secrets/ops/hook", true)
	o.expectChange()
	o.expectHeader("Bearer a")
}

// Once access is revoked, the credentials are not used any more.
func TestRevokedAccess(t *testing.T) {
	a := newAPI(t)
	a.secret("ops/hook", map[string]string{"token": "a"})
	o := open(t, a, token("token"))
	o.expectHeader("Bearer a")
	for _, allowed := range []bool{false, true} {
		a.setAllowed("secrets/ops/hook", allowed)
		must.Eventually(t, fmt.Sprint("allowed: ", allowed), func() bool {
			_, err := o.Current(t.Context())
			return (err == nil) == allowed
		})
	}
	o.expectHeader("Bearer a")
}

func TestWaitEndsWithContext(t *testing.T) {
	a := newAPI(t)
	a.server.Config.Handler = nil
	s := a.store()
	s.Close() // No watch event arrives after this.
	source := credential.Open(s, token("token"), "", nil)
	defer source.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source.Current(ctx); fmt.Sprint(err) != "Secret ops/hook not read yet" {
		t.Errorf("got %v", err)
	}
}

func TestOnlyReferencedObjectsAreWatched(t *testing.T) {
	a := newAPI(t)
	ca := newTestCA(t)
	cert, key := ca.issue("client")
	a.secret("ops/hook", map[string]string{"token": "a", "tls.crt": cert, "tls.key": key})
	a.put("configmaps/kube-system/ca", map[string]any{"data": map[string]string{"root": ca.pem}})
	spec := token("token")
	spec.ClientTLS = &api.ClientTLS{SecretRef: opsHook}
	spec.CABundle = &api.CABundle{ConfigMapRef: &api.CertificateKeyReference{ObjectReference: api.ObjectReference{Namespace: "kube-system", Name: "ca"}, Key: "root"}}
	o := open(t, a, spec)
	o.mustCurrent()
	got := a.watched()
	slices.Sort(got)
	if want := "[configmaps/kube-system/ca secrets/ops/hook]"; fmt.Sprint(got) != want {
		t.Errorf("watched %s, want %s", got, want)
	}
	o.Close()
	must.Eventually(t, "no watch after Close", func() bool { return len(a.watched()) == 0 })
}

func TestEmptySpec(t *testing.T) {
	source := credential.Open(nil, credential.Spec{}, "", nil)
	defer source.Close()
	c, err := source.Current(t.Context())
	if err != nil || c.TLS != nil || c.Authorization != "" {
		t.Errorf("got %+v and error %v", c, err)
	}
	if !(credential.Spec{}).IsZero() || token("a").IsZero() {
		t.Error("IsZero is wrong")
	}
}

func TestValidate(t *testing.T) {
	good := api.ObjectReference{Namespace: "ops", Name: "hook"}
	ca := newTestCA(t).pem
	for _, c := range []struct {
		spec credential.Spec
		want string
	}{
		{credential.Spec{}, "<nil>"},
		{credential.Spec{CABundle: &api.CABundle{Inline: ca}, ClientTLS: &api.ClientTLS{SecretRef: good}}, "<nil>"},
		{credential.Spec{CABundle: &api.CABundle{ConfigMapRef: &api.CertificateKeyReference{ObjectReference: good}}, BasicAuth: &api.BasicAuth{SecretRef: good}}, "<nil>"},
		{credential.Spec{Authorization: &api.Authorization{SecretRef: api.TokenKeyReference{ObjectReference: good, Key: "token"}}}, "<nil>"},
		{credential.Spec{Authorization: &api.Authorization{Type: "Token", SecretRef: api.TokenKeyReference{ObjectReference: good, Key: "token"}}}, "<nil>"},
		{credential.Spec{CABundle: &api.CABundle{}}, "caBundle: set exactly one of inline, secretRef and configMapRef"},
		{credential.Spec{CABundle: &api.CABundle{Inline: ca, SecretRef: &api.CertificateKeyReference{ObjectReference: good}}}, "caBundle: set exactly one of inline, secretRef and configMapRef"},
		{credential.Spec{CABundle: &api.CABundle{Inline: "none"}}, "caBundle.inline: no PEM certificates"},
		{credential.Spec{CABundle: &api.CABundle{SecretRef: &api.CertificateKeyReference{}}}, "caBundle.secretRef.name: required"},
		{credential.Spec{CABundle: &api.CABundle{ConfigMapRef: &api.CertificateKeyReference{ObjectReference: api.ObjectReference{Name: "x"}}}}, "caBundle.configMapRef.namespace: required"},
		{credential.Spec{ClientTLS: &api.ClientTLS{}}, "clientTLS.secretRef.name: required"},
		{credential.Spec{BasicAuth: &api.BasicAuth{}}, "basicAuth.secretRef.name: required"},
		{credential.Spec{Authorization: &api.Authorization{Type: "BASIC"}}, "authorization.type: BASIC use basicAuth"},
		{credential.Spec{Authorization: &api.Authorization{Type: "a b"}}, "authorization.type: must be one word, such as Bearer"},
		{credential.Spec{Authorization: &api.Authorization{SecretRef: api.TokenKeyReference{ObjectReference: good}}}, "authorization.secretRef.key: required"},
		{credential.Spec{Authorization: &api.Authorization{}, BasicAuth: &api.BasicAuth{}}, "authorization: cannot be set together with basicAuth"},
	} {
		if got := fmt.Sprint(c.spec.Validate()); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
