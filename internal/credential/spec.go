package credential

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Spec is the connection settings of a webhook or host. The zero value needs no
// credentials. Empty keys and types have the API's defaults. Field names match both API
// groups, so that their JSON decodes into a Spec.
type Spec struct {
	CABundle      *CABundle
	ClientTLS     *ClientTLS
	Authorization *Authorization
	BasicAuth     *BasicAuth
}

// CABundle locates the trusted CA certificates of a hook, in PEM form. Exactly one field
// is set.
type CABundle struct {
	Inline *string
	// The key of SecretRef and ConfigMapRef defaults to "ca.crt".
	SecretRef, ConfigMapRef *KeyRef
}

// ClientTLS locates the client certificate and its private key, in PEM form.
type ClientTLS struct {
	SecretRef types.NamespacedName
	// CertKey defaults to "tls.crt", PrivateKeyKey to "tls.key".
	CertKey, PrivateKeyKey string
}

// Authorization locates a token.
type Authorization struct {
	// Type defaults to "Bearer".
	Type string
	// SecretRef requires a key.
	SecretRef KeyRef
}

// BasicAuth locates a user name and password.
type BasicAuth struct {
	SecretRef types.NamespacedName
	// UsernameKey defaults to "username", PasswordKey to "password".
	UsernameKey, PasswordKey string
}

// KeyRef refers to a key of a Secret or ConfigMap.
type KeyRef struct {
	types.NamespacedName

	Key string
}

// IsZero reports whether the spec refers to no objects and needs no Source.
func (s Spec) IsZero() bool { return s == Spec{} }

// HasReferences reports whether a valid spec refers to Secrets or ConfigMaps.
func (s Spec) HasReferences() bool { return len(s.Objects()) > 0 }

// Validate returns an error if the spec is invalid regardless of what the Secrets
// contain. The error starts with a field path, such as "caBundle.secretRef.name".
func (s Spec) Validate() error {
	if s.Authorization != nil && s.BasicAuth != nil {
		return errors.New("authorization: cannot be set together with basicAuth")
	}
	return cmp.Or(s.CABundle.validate(), s.ClientTLS.validate(), s.Authorization.validate(), s.BasicAuth.validate())
}

func (c *CABundle) validate() error {
	switch {
	case c == nil:
		return nil
	case c.sources() != 1:
		return errors.New("caBundle: set exactly one of inline, secretRef and configMapRef")
	case c.Inline != nil:
		_, err := parseCABundle([]byte(*c.Inline))
		return withField("caBundle.inline", err)
	case c.SecretRef != nil:
		return validate(c.SecretRef.NamespacedName, "caBundle.secretRef")
	}
	return validate(c.ConfigMapRef.NamespacedName, "caBundle.configMapRef")
}

func (c *CABundle) sources() (n int) {
	for _, set := range []bool{c.Inline != nil, c.SecretRef != nil, c.ConfigMapRef != nil} {
		if set {
			n++
		}
	}
	return n
}

func (c *ClientTLS) validate() error {
	if c == nil {
		return nil
	}
	return validate(c.SecretRef, "clientTLS.secretRef")
}

func (a *Authorization) validate() error {
	switch {
	case a == nil:
		return nil
	case strings.EqualFold(a.Type, "basic"):
		return fmt.Errorf("authorization.type: %s use basicAuth", a.Type)
	case strings.ContainsFunc(a.Type, isInvalidSchemeChar):
		return errors.New("authorization.type: must be one word, such as Bearer")
	case a.SecretRef.Key == "":
		return errors.New("authorization.secretRef.key: required")
	}
	return validate(a.SecretRef.NamespacedName, "authorization.secretRef")
}

func (b *BasicAuth) validate() error {
	if b == nil {
		return nil
	}
	return validate(b.SecretRef, "basicAuth.secretRef")
}

func validate(r types.NamespacedName, field string) error {
	switch {
	case r.Name == "":
		return errors.New(field + ".name: required")
	case r.Namespace == "":
		return errors.New(field + ".namespace: required")
	}
	return nil
}

// isInvalidSchemeChar reports whether c is invalid in an authorization scheme.
func isInvalidSchemeChar(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, c)
}

// withField prefixes an error with a field path; nil stays nil.
func withField(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}
