package admission

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// keyring is all that is kept of certificates and keys. It is immutable.
type keyring struct {
	// serving is what the Server shows, signed by the signer.
	serving, signer pair
	// heir is the CA that is to sign next. It is in the bundle and waits until
	// every configuration carries that; nil if none waits.
	heir *pair
	// past are CAs that sign no more, and are trusted for what they have signed.
	past []*x509.Certificate
	// pathKey makes the paths of reviews unguessable; empty in what was kept before
	// there were any.
	pathKey PathKey
}

// pair is a certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// authorities are the CAs that are trusted: who signs, who is to, who did. Their
// order stays the same when the heir succeeds.
func (k *keyring) authorities() []*x509.Certificate {
	all := append([]*x509.Certificate{k.signer.cert}, k.past...)
	if k.heir != nil {
		all = append(all, k.heir.cert)
	}
	slices.SortFunc(all, func(a, b *x509.Certificate) int {
		return cmp.Or(a.NotBefore.Compare(b.NotBefore), bytes.Compare(a.Raw, b.Raw))
	})
	return all
}

// The keys of a Secret that holds a keyring. Those of the serving certificate are
// prescribed for Secrets of type kubernetes.io/tls.
const (
	servingCertKey = "tls.crt"
	servingKeyKey  = "tls.key"
	bundleKey      = "ca.crt"
	signerKeyKey   = "ca.key"
	heirKeyKey     = "next-ca.key"
	pathKeyKey     = "path.key"
)

// contents are a keyring as it is kept, in PEM form by the key of a Secret.
type contents map[string][]byte

// pack writes a keyring. Which certificate of the bundle signs is known by its key.
func (k *keyring) pack() (contents, error) {
	bundle, err := cert.EncodeCertificates(k.authorities()...)
	if err != nil {
		return nil, err
	}
	serving, err := cert.EncodeCertificates(k.serving.cert)
	if err != nil {
		return nil, err
	}
	c := contents{servingCertKey: serving, bundleKey: bundle}
	if k.pathKey != "" {
		c[pathKeyKey] = []byte(k.pathKey)
	}
	keys := map[string]crypto.Signer{servingKeyKey: k.serving.key, signerKeyKey: k.signer.key}
	if k.heir != nil {
		keys[heirKeyKey] = k.heir.key
	}
	for name, key := range keys {
		if c[name], err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// unpack reads what pack has written. An error says what of it makes no sense;
// whether the certificates are still valid is not looked at.
func (c contents) unpack() (*keyring, error) {
	authorities, err := cert.ParseCertsPEM(c[bundleKey])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", bundleKey, err)
	}
	k := &keyring{past: authorities, pathKey: PathKey(c[pathKeyKey])}
	if k.serving, err = c.serving(); err != nil {
		return nil, fmt.Errorf("%s: %w", servingCertKey, err)
	}
	if k.signer, err = k.claim(c, signerKeyKey); err != nil {
		return nil, err
	}
	if err = k.serving.cert.CheckSignatureFrom(k.signer.cert); err != nil {
		return nil, fmt.Errorf("%s: is not signed by the CA of %s: %w", servingCertKey, signerKeyKey, err)
	}
	if len(c[heirKeyKey]) > 0 {
		heir, err := k.claim(c, heirKeyKey)
		if err != nil {
			return nil, err
		}
		k.heir = &heir
	}
	return k, nil
}

func (c contents) serving() (pair, error) {
	both, err := tls.X509KeyPair(c[servingCertKey], c[servingKeyKey])
	if err != nil {
		return pair{}, err
	}
	key, ok := both.PrivateKey.(crypto.Signer)
	if !ok {
		return pair{}, errors.New("its key cannot sign")
	}
	return pair{both.Leaf, key}, nil
}

// claim reads a CA's key and takes its certificate from those that have none.
func (k *keyring) claim(c contents, name string) (pair, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(c[name])
	if err != nil {
		return pair{}, fmt.Errorf("%s: %w", name, err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return pair{}, fmt.Errorf("%s: the key cannot sign", name)
	}
	i := slices.IndexFunc(k.past, func(c *x509.Certificate) bool { return c.IsCA && certifies(c, key) })
	if i < 0 {
		return pair{}, fmt.Errorf("%s: %s has no CA of that key", name, bundleKey)
	}
	claimed := k.past[i]
	k.past = slices.Delete(k.past, i, i+1)
	return pair{claimed, key}, nil
}

func certifies(c *x509.Certificate, key crypto.Signer) bool {
	public, ok := c.PublicKey.(interface {
		Equal(other crypto.PublicKey) bool
	})
	return ok && public.Equal(key.Public())
}

// equal says that two hold the same, in the same order.
func (c contents) equal(other contents) bool {
	if len(c) != len(other) {
		return false
	}
	for name, value := range c {
		if !bytes.Equal(value, other[name]) {
			return false
		}
	}
	return true
}

// certificate is what a Server shows.
func (k *keyring) certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{k.serving.cert.Raw}, PrivateKey: k.serving.key, Leaf: k.serving.cert}
}

// skew is how much earlier than they are made certificates are valid: not all
// clocks are right.
const skew = time.Hour

// valid says that a certificate is, at a time.
func valid(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && now.Before(c.NotAfter)
}

// due is when a certificate is to be followed by another: at two thirds of its life.
func due(c *x509.Certificate) time.Time {
	made := c.NotBefore.Add(skew)
	return made.Add(c.NotAfter.Sub(made) / 3 * 2)
}
