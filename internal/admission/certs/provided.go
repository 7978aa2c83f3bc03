package certs

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/admission"
)

// A provided Secret has the keys of cert-manager's: tls.crt with the serving certificate and
// its intermediate CAs, tls.key, and ca.crt with the CAs that the API server trusts.

// loadProvided uses the certificate of the provided Secret, and returns when to check it
// again. An unusable one is an error, and the previous one stays in use.
func (k *Manager) loadProvided() (time.Time, error) {
	name := secretName(k.options.Secret)
	stored := k.view.Get(k.options.Secret.Namespace, k.options.Secret.Name)
	if stored == nil {
		return time.Time{}, fmt.Errorf("%s does not exist: create it with %s, %s and %s", name, servingCertKey, servingKeyKey, bundleKey)
	}
	packed, err := secretDataOf(stored)
	if err != nil {
		return time.Time{}, fmt.Errorf("read %s: %w", name, err)
	}
	now := k.options.Clock.Now()
	certificate, err := packed.verify(k.options.ServerName, now)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	pathKey, err := packed.derivePathKey()
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	used := secretData{servingCertKey: packed[servingCertKey], servingKeyKey: packed[servingKeyKey], bundleKey: packed[bundleKey]}
	if k.setKeyring(&keyring{provided: certificate, pathKey: pathKey}, used) {
		k.options.Log.Info("webhook certificate loaded", "secret", k.options.Secret.String(), "until", certificate.Leaf.NotAfter)
	}
	return slices.MinFunc([]time.Time{now.Add(maxCheckInterval), certificate.Leaf.NotAfter}, time.Time.Compare), nil
}

// verify returns the serving certificate, if the API server will accept it for a name. The
// error names the key of the Secret.
func (c secretData) verify(serverName string, now time.Time) (*tls.Certificate, error) {
	for _, key := range []string{servingCertKey, servingKeyKey, bundleKey} {
		if len(c[key]) == 0 {
			return nil, fmt.Errorf("%s is missing", key)
		}
	}
	pair, err := tls.X509KeyPair(c[servingCertKey], c[servingKeyKey])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", servingCertKey, servingKeyKey, err)
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c[bundleKey]) {
		return nil, fmt.Errorf("%s has no PEM certificate", bundleKey)
	}
	intermediates.AppendCertsFromPEM(c[servingCertKey])
	_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: serverName, Roots: roots, Intermediates: intermediates, CurrentTime: now})
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return nil, fmt.Errorf("%s is not signed by a CA of %s: %w", servingCertKey, bundleKey, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", servingCertKey, err)
	}
	return &pair, nil
}

// derivePathKey returns the key of the webhook paths. It is derived from the private key:
// all replicas have that, and Setpoint writes nothing into a Secret that is not its own.
func (c secretData) derivePathKey() (admission.PathKey, error) {
	key, err := hkdf.Key(sha256.New, bytes.TrimSpace(c[servingKeyKey]), nil, "setpoint webhook paths", sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive the key of the webhook paths: %w", err)
	}
	return admission.PathKey(hex.EncodeToString(key)), nil
}
