package credential

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/call/webhook"
)

// loaded is the result of reading the objects: credentials or an error.
type loaded struct {
	data        secretData
	credentials *webhook.Credentials
	err         error
}

// secretData has the values that credentials consist of.
type secretData struct {
	caBundle, cert, privateKey []byte
	authorization              string
}

// load creates credentials from the watched objects. It returns before if nothing
// changed, and reuses its TLS configuration if the certificates did not.
func (s Spec) load(from *Source, before *loaded) *loaded {
	m, err := s.loadData(from)
	if err != nil {
		return before.failed(m, err)
	}
	if before != nil && before.err == nil && before.data.equal(m) {
		return before
	}
	c := &webhook.Credentials{Authorization: m.authorization}
	if before != nil && before.credentials != nil && before.data.sameTLS(m) {
		c.TLS = before.credentials.TLS
		return &loaded{data: m, credentials: c}
	}
	if s.CABundle != nil || s.ClientTLS != nil {
		if c.TLS, err = s.tlsConfig(m); err != nil {
			return before.failed(m, err)
		}
	}
	return &loaded{data: m, credentials: c}
}

// failed returns a failed result, or r if it has the same error.
func (r *loaded) failed(m secretData, err error) *loaded {
	if r != nil && r.err != nil && r.err.Error() == err.Error() {
		return r
	}
	return &loaded{data: m, err: err}
}

func (m secretData) equal(other secretData) bool {
	return m.authorization == other.authorization && m.sameTLS(other)
}

// sameTLS reports whether both have the same certificates and key.
func (m secretData) sameTLS(other secretData) bool {
	return bytes.Equal(m.caBundle, other.caBundle) && bytes.Equal(m.cert, other.cert) && bytes.Equal(m.privateKey, other.privateKey)
}

// loadData reads all values that the spec refers to.
func (s Spec) loadData(from *Source) (m secretData, err error) {
	if m.caBundle, err = s.CABundle.load(from); err != nil {
		return m, err
	}
	if s.ClientTLS != nil {
		cert, privateKey := s.ClientTLS.keys()
		if m.cert, m.privateKey, err = from.values(cert, privateKey); err != nil {
			return m, err
		}
	}
	m.authorization, err = s.authorization(from)
	return m, err
}

func (c *CABundle) load(from *Source) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	if k, named := c.key(); named {
		return from.value(k)
	}
	return []byte(*c.Inline), nil
}

func (s *Source) values(a, b valueKey) (first, second []byte, err error) {
	if first, err = s.value(a); err != nil {
		return nil, nil, err
	}
	second, err = s.value(b)
	return first, second, err
}

// authorization returns the Authorization header.
func (s Spec) authorization(from *Source) (string, error) {
	switch {
	case s.Authorization != nil:
		return s.Authorization.header(from)
	case s.BasicAuth != nil:
		return s.BasicAuth.header(from)
	}
	return "", nil
}

func (a *Authorization) header(from *Source) (string, error) {
	k := a.key()
	value, err := from.value(k)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(value))
	switch {
	case token == "":
		return "", fmt.Errorf("%s: key %s is blank", k.Ref, k.name)
	case strings.ContainsFunc(token, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
		return "", fmt.Errorf("%s: key %s: has more than one line; a header cannot", k.Ref, k.name)
	}
	return cmp.Or(a.Type, "Bearer") + " " + token, nil
}

func (b *BasicAuth) header(from *Source) (string, error) {
	u, p := b.keys()
	username, password, err := from.values(u, p)
	if err != nil {
		return "", err
	}
	if bytes.IndexByte(username, ':') >= 0 {
		return "", fmt.Errorf("%s: key %s: a user name cannot contain a colon", u.Ref, u.name)
	}
	userPassword := append(append(bytes.Clone(username), ':'), password...)
	return "Basic " + base64.StdEncoding.EncodeToString(userPassword), nil
}

// tlsConfig returns the TLS configuration for the certificates and key.
func (s Spec) tlsConfig(m secretData) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if s.CABundle != nil {
		if c.RootCAs, err = parseCABundle(m.caBundle); err != nil {
			return nil, withField(s.CABundle.location(), err)
		}
	}
	if s.ClientTLS != nil {
		pair, err := tls.X509KeyPair(m.cert, m.privateKey)
		if err != nil {
			cert, privateKey := s.ClientTLS.keys()
			return nil, fmt.Errorf("%s: keys %s and %s: %w", cert.Ref, cert.name, privateKey.name, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// location returns where the user configured the certificates.
func (c *CABundle) location() string {
	if k, named := c.key(); named {
		return k.String() + ": key " + k.name
	}
	return "caBundle.inline"
}

// parseCABundle parses certificates in PEM form.
func parseCABundle(pem []byte) (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("no PEM certificates")
	}
	return roots, nil
}
