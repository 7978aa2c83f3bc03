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

// reading is what the objects held at some moment: credentials, or the reason
// why there are none.
type reading struct {
	material    material
	credentials *webhook.Credentials
	err         error
}

// material is the values that credentials are made of.
type material struct {
	roots, cert, private []byte
	authorization        string
}

// read makes credentials of what the source holds. If that is the same as
// before, so is the reading; if the certificates are, so is the TLS.
func (s Spec) read(from *Source, before *reading) *reading {
	m, err := s.gather(from)
	if err != nil {
		return before.orFailed(m, err)
	}
	if before != nil && before.err == nil && before.material.equal(m) {
		return before
	}
	c := &webhook.Credentials{Authorization: m.authorization}
	if before != nil && before.credentials != nil && before.material.secures(m) {
		c.TLS = before.credentials.TLS
		return &reading{material: m, credentials: c}
	}
	if s.CABundle != nil || s.ClientTLS != nil {
		if c.TLS, err = s.secured(m); err != nil {
			return before.orFailed(m, err)
		}
	}
	return &reading{material: m, credentials: c}
}

// orFailed is a reading that failed; the one before if it failed alike.
func (r *reading) orFailed(m material, err error) *reading {
	if r != nil && r.err != nil && r.err.Error() == err.Error() {
		return r
	}
	return &reading{material: m, err: err}
}

func (m material) equal(other material) bool {
	return m.authorization == other.authorization && m.secures(other)
}

// secures says that two materials make the same TLS.
func (m material) secures(other material) bool {
	return bytes.Equal(m.roots, other.roots) && bytes.Equal(m.cert, other.cert) && bytes.Equal(m.private, other.private)
}

// gather looks up all that the spec names.
func (s Spec) gather(from *Source) (m material, err error) {
	if m.roots, err = s.CABundle.gather(from); err != nil {
		return m, err
	}
	if s.ClientTLS != nil {
		cert, private := s.ClientTLS.keys()
		if m.cert, m.private, err = from.pair(cert, private); err != nil {
			return m, err
		}
	}
	m.authorization, err = s.authorization(from)
	return m, err
}

func (c *CABundle) gather(from *Source) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	if k, named := c.key(); named {
		return from.value(k)
	}
	return []byte(*c.Inline), nil
}

// pair is the values of two keys.
func (s *Source) pair(a, b key) (first, second []byte, err error) {
	if first, err = s.value(a); err != nil {
		return nil, nil, err
	}
	second, err = s.value(b)
	return first, second, err
}

// authorization is the value of the header of that name.
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
		return "", fmt.Errorf("%s: key %s is blank", k.holder, k.name)
	case strings.ContainsFunc(token, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
		return "", fmt.Errorf("%s: key %s: is more than one line, which no header can hold", k.holder, k.name)
	}
	return cmp.Or(a.Type, "Bearer") + " " + token, nil
}

func (b *BasicAuth) header(from *Source) (string, error) {
	u, p := b.keys()
	username, password, err := from.pair(u, p)
	if err != nil {
		return "", err
	}
	if bytes.IndexByte(username, ':') >= 0 {
		return "", fmt.Errorf("%s: key %s: a user name cannot have a colon in it", u.holder, u.name)
	}
	joined := append(append(bytes.Clone(username), ':'), password...)
	return "Basic " + base64.StdEncoding.EncodeToString(joined), nil
}

// secured makes the TLS of a material.
func (s Spec) secured(m material) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if s.CABundle != nil {
		if c.RootCAs, err = readRoots(m.roots); err != nil {
			return nil, within(s.CABundle.place(), err)
		}
	}
	if s.ClientTLS != nil {
		pair, err := tls.X509KeyPair(m.cert, m.private)
		if err != nil {
			cert, private := s.ClientTLS.keys()
			return nil, fmt.Errorf("%s: keys %s and %s: %w", cert.holder, cert.name, private.name, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// place is where a user finds the certificates.
func (c *CABundle) place() string {
	if k, named := c.key(); named {
		return k.String() + ": key " + k.name
	}
	return "caBundle.inline"
}

// readRoots reads certificates in PEM form.
func readRoots(pem []byte) (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("has no certificate in PEM form")
	}
	return roots, nil
}
