package certs

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/setpoint-dev/setpoint/internal/admission"
)

// keyring is an immutable set of certificates and keys.
type keyring struct {
	// serving is the certificate of the Server, signed by signer.
	serving, signer keyPair
	// nextCA signs after signer. It is in the bundle, and waits until every configuration
	// has the bundle; nil if there is none.
	nextCA *keyPair
	// retired are CAs that no longer sign, and are trusted for what they signed.
	retired []*x509.Certificate
	// provided is the serving certificate of a Secret that Setpoint only reads, nil of
	// others. Such a keyring has no other certificates.
	provided *tls.Certificate
	// pathKey makes webhook paths unguessable; empty in keyrings of older versions.
	pathKey admission.PathKey
}

type keyPair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// authorities returns all trusted CAs, in an order that does not change when nextCA
// becomes signer.
func (k *keyring) authorities() []*x509.Certificate {
	all := append([]*x509.Certificate{k.signer.cert}, k.retired...)
	if k.nextCA != nil {
		all = append(all, k.nextCA.cert)
	}
	slices.SortFunc(all, func(a, b *x509.Certificate) int {
		return cmp.Or(a.NotBefore.Compare(b.NotBefore), bytes.Compare(a.Raw, b.Raw))
	})
	return all
}

// The keys of a Secret with a keyring. Secrets of type kubernetes.io/tls require those of
// the serving certificate.
const (
	servingCertKey = "tls.crt"
	servingKeyKey  = "tls.key"
	bundleKey      = "ca.crt"
	signerKeyKey   = "ca.key"
	nextCAKeyKey   = "next-ca.key"
	pathKeyKey     = "path.key"
)

// secretData is an encoded keyring, as PEM by the key of the Secret.
type secretData map[string][]byte

// encode encodes a keyring. Keys identify the CA that signs.
func (k *keyring) encode() (secretData, error) {
	bundle, err := cert.EncodeCertificates(k.authorities()...)
	if err != nil {
		return nil, err
	}
	serving, err := cert.EncodeCertificates(k.serving.cert)
	if err != nil {
		return nil, err
	}
	c := secretData{servingCertKey: serving, bundleKey: bundle}
	if k.pathKey != "" {
		c[pathKeyKey] = []byte(k.pathKey)
	}
	keys := map[string]crypto.Signer{servingKeyKey: k.serving.key, signerKeyKey: k.signer.key}
	if k.nextCA != nil {
		keys[nextCAKeyKey] = k.nextCA.key
	}
	for name, key := range keys {
		if c[name], err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// decode decodes a keyring. It does not check whether certificates are still valid.
func (c secretData) decode() (*keyring, error) {
	authorities, err := cert.ParseCertsPEM(c[bundleKey])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bundleKey, err)
	}
	k := &keyring{retired: authorities, pathKey: admission.PathKey(c[pathKeyKey])}
	if k.serving, err = c.serving(); err != nil {
		return nil, fmt.Errorf("%s: %w", servingCertKey, err)
	}
	if k.signer, err = k.loadCA(c, signerKeyKey); err != nil {
		return nil, err
	}
	if err = k.serving.cert.CheckSignatureFrom(k.signer.cert); err != nil {
		return nil, fmt.Errorf("%s: not signed by the CA of %s: %w", servingCertKey, signerKeyKey, err)
	}
	if len(c[nextCAKeyKey]) > 0 {
		nextCA, err := k.loadCA(c, nextCAKeyKey)
		if err != nil {
			return nil, err
		}
		k.nextCA = &nextCA
	}
	return k, nil
}

func (c secretData) serving() (keyPair, error) {
	both, err := tls.X509KeyPair(c[servingCertKey], c[servingKeyKey])
	if err != nil {
		return keyPair{}, err
	}
	key, ok := both.PrivateKey.(crypto.Signer)
	if !ok {
		return keyPair{}, errors.New("its key cannot sign")
	}
	return keyPair{both.Leaf, key}, nil
}

// loadCA reads the key of a CA, and moves its certificate out of retired.
func (k *keyring) loadCA(c secretData, name string) (keyPair, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(c[name])
	if err != nil {
		return keyPair{}, fmt.Errorf("%s: %w", name, err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return keyPair{}, fmt.Errorf("%s: the key cannot sign", name)
	}
	i := slices.IndexFunc(k.retired, func(c *x509.Certificate) bool { return c.IsCA && certifies(c, key) })
	if i < 0 {
		return keyPair{}, fmt.Errorf("%s: %s has no CA with this key", name, bundleKey)
	}
	claimed := k.retired[i]
	k.retired = slices.Delete(k.retired, i, i+1)
	return keyPair{claimed, key}, nil
}

func certifies(c *x509.Certificate, key crypto.Signer) bool {
	public, ok := c.PublicKey.(interface {
		Equal(other crypto.PublicKey) bool
	})
	return ok && public.Equal(key.Public())
}

func (c secretData) equal(other secretData) bool { return maps.EqualFunc(c, other, bytes.Equal) }

func (k *keyring) certificate() *tls.Certificate {
	if k.provided != nil {
		return k.provided
	}
	return &tls.Certificate{Certificate: [][]byte{k.serving.cert.Raw}, PrivateKey: k.serving.key, Leaf: k.serving.cert}
}

// clockSkew backdates certificates, because clocks differ.
const clockSkew = time.Hour

func valid(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && now.Before(c.NotAfter)
}

// renewTime is after two thirds of the lifetime of a certificate.
func renewTime(c *x509.Certificate) time.Time {
	made := c.NotBefore.Add(clockSkew)
	return made.Add(c.NotAfter.Sub(made) / 3 * 2)
}
