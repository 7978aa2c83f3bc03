package credential

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/call/webhook"
)

// loaded is the result of reading the objects: credentials or an error.
type loaded struct {
	values      map[role][]byte
	credentials *webhook.Credentials
	err         error
}

// load creates credentials from the values that read returns. It returns before if nothing
// changed, and reuses its TLS configuration if the certificates did not.
func (s Spec) load(read func(valueKey) ([]byte, error), before *loaded) *loaded {
	now := &loaded{values: map[role][]byte{}}
	for _, k := range s.keys() {
		if now.values[k.role], now.err = read(k); now.err != nil {
			break
		}
	}
	if now.err == nil {
		if before != nil && before.err == nil && maps.EqualFunc(before.values, now.values, bytes.Equal) {
			return before
		}
		now.credentials, now.err = s.credentials(now.values, before)
	}
	if now.err != nil && before != nil && before.err != nil && before.err.Error() == now.err.Error() {
		return before
	}
	return now
}

func (s Spec) credentials(values map[role][]byte, before *loaded) (c *webhook.Credentials, err error) {
	keys := map[role]valueKey{}
	for _, k := range s.keys() {
		keys[k.role] = k
	}
	c = &webhook.Credentials{}
	if c.Authorization, err = s.authorization(values, keys); err != nil {
		return nil, err
	}
	changed := func(of role) bool { return !bytes.Equal(before.values[of], values[of]) }
	if before != nil && before.credentials != nil && !slices.ContainsFunc([]role{caBundle, clientCert, clientKey}, changed) {
		c.TLS = before.credentials.TLS
		return c, nil
	}
	if s.CABundle == nil && s.ClientTLS == nil {
		return c, nil
	}
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CABundle != nil {
		bundle := values[caBundle]
		if s.CABundle.Inline != "" {
			bundle = []byte(s.CABundle.Inline)
		}
		c.TLS.RootCAs = x509.NewCertPool()
		if !c.TLS.RootCAs.AppendCertsFromPEM(bundle) {
			return nil, keys[caBundle].wrap(errNoCertificates)
		}
	}
	if s.ClientTLS != nil {
		pair, err := tls.X509KeyPair(values[clientCert], values[clientKey])
		if err != nil {
			return nil, fmt.Errorf("%s: keys %s and %s: %w", keys[clientCert].Ref, keys[clientCert].name, keys[clientKey].name, err)
		}
		c.TLS.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// authorization returns the Authorization header.
func (s Spec) authorization(values map[role][]byte, keys map[role]valueKey) (string, error) {
	switch secret := strings.TrimSpace(string(values[token])); {
	case s.BasicAuth != nil && bytes.IndexByte(values[username], ':') >= 0:
		return "", keys[username].wrap(errors.New("a user name cannot contain a colon"))
	case s.BasicAuth != nil:
		both := bytes.Join([][]byte{values[username], values[password]}, []byte(":"))
		return "Basic " + base64.StdEncoding.EncodeToString(both), nil
	case s.Authorization == nil:
		return "", nil
	case secret == "":
		return "", keys[token].wrap(errors.New("is blank"))
	case strings.ContainsFunc(secret, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
		return "", keys[token].wrap(errors.New("has more than one line; a header cannot"))
	default:
		return cmp.Or(s.Authorization.Type, "Bearer") + " " + secret, nil
	}
}
