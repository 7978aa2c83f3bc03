package certs

import (
	"crypto/x509"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// A certificate that the API server would refuse is refused before it is served, with the key
// of the Secret that is wrong.
func TestProvidedCertificates(t *testing.T) {
	const name, day = "setpoint.ops.svc", 24 * time.Hour
	now := time.Now()
	good := issued(t, now, 90*day, "setpoint", name)
	other := issued(t, now, 90*day, name)
	for title, c := range map[string]struct {
		data  secretData
		at    time.Time
		error string
	}{
		"valid":          {good, now, ""},
		"no CA":          {without(good, bundleKey), now, "ca.crt is missing"},
		"no certificate": {without(good, servingCertKey), now, "tls.crt is missing"},
		"no key":         {without(good, servingKeyKey), now, "tls.key is missing"},
		"expired":        {good, now.Add(91 * day), "tls.crt: x509: certificate has expired or is not yet valid"},
		"too early":      {good, now.Add(-day), "tls.crt: x509: certificate has expired or is not yet valid"},
		"another name":   {issued(t, now, 90*day, "web.ops.svc"), now, "tls.crt: x509: certificate is valid for web.ops.svc, not setpoint.ops.svc"},
		"another CA":     {with(good, bundleKey, other[bundleKey]), now, "tls.crt is not signed by a CA of ca.crt: x509: certificate signed by unknown authority"},
		"another key":    {with(good, servingKeyKey, other[servingKeyKey]), now, "tls.crt and tls.key: tls: private key does not match public key"},
		"no PEM":         {with(good, bundleKey, []byte("-")), now, "ca.crt has no PEM certificate"},
	} {
		t.Run(title, func(t *testing.T) {
			pair, err := c.data.verify(name, c.at)
			if c.error == "" {
				if err != nil || pair.Leaf.VerifyHostname(name) != nil {
					t.Errorf("%v", err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.error) {
				t.Errorf("%v, want %s", err, c.error)
			}
		})
	}
}

// All replicas derive the same paths from a private key, and other ones from another.
func TestPathsOfProvidedCertificates(t *testing.T) {
	one, other := issued(t, time.Now(), time.Hour, "a"), issued(t, time.Now(), time.Hour, "a")
	first, err := one.derivePathKey()
	again, _ := with(one, servingKeyKey, append(one[servingKeyKey], '\n')).derivePathKey()
	second, _ := other.derivePathKey()
	if err != nil || first == "" || first != again || first == second {
		t.Errorf("keys %q, %q, %q: %v", first, again, second, err)
	}
}

// issued returns what a user stores: a serving certificate of a new CA.
func issued(t *testing.T, now time.Time, life time.Duration, names ...string) secretData {
	t.Helper()
	authority := must.Get(newAuthority(now, 2*life)).In(t)
	serving := must.Get(authority.sign(now, life, names)).In(t)
	data := secretData{}
	for key, certificate := range map[string]*x509.Certificate{servingCertKey: serving.cert, bundleKey: authority.cert} {
		data[key] = must.Get(cert.EncodeCertificates(certificate)).In(t)
	}
	data[servingKeyKey] = must.Get(keyutil.MarshalPrivateKeyToPEM(serving.key)).In(t)
	return data
}

func without(data secretData, key string) secretData { return with(data, key, nil) }

func with(data secretData, key string, value []byte) secretData {
	changed := maps.Clone(data)
	changed[key] = value
	return changed
}
