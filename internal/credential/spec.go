package credential

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Spec is the connection settings of a webhook, or of a host. The zero value
// names nothing. Keys and types that are left out have the API's defaults. Its
// fields are called as in both API groups, whose JSON can be read into it.
type Spec struct {
	CABundle      *CABundle
	ClientTLS     *ClientTLS
	Authorization *Authorization
	BasicAuth     *BasicAuth
}

// CABundle is where the certificates that vouch for a hook are, in PEM form:
// in exactly one of three places.
type CABundle struct {
	Inline *string
	// SecretRef and ConfigMapRef have the key "ca.crt" if it is empty.
	SecretRef, ConfigMapRef *KeyRef
}

// ClientTLS is where the certificate to show is, and its private key, both in
// PEM form.
type ClientTLS struct {
	SecretRef Ref
	// CertKey is "tls.crt" if empty, PrivateKeyKey "tls.key".
	CertKey, PrivateKeyKey string
}

// Authorization is where a token to send is.
type Authorization struct {
	// Type is "Bearer" if empty.
	Type string
	// SecretRef needs a key.
	SecretRef KeyRef
}

// BasicAuth is where a user name and a password to send are.
type BasicAuth struct {
	SecretRef Ref
	// UsernameKey is "username" if empty, PasswordKey "password".
	UsernameKey, PasswordKey string
}

// Ref names a Secret or ConfigMap.
type Ref struct{ Namespace, Name string }

// KeyRef names a key of one.
type KeyRef struct {
	Ref

	Key string
}

// IsZero says that there is nothing to be read, and no Source needed.
func (s Spec) IsZero() bool { return s == Spec{} }

// Validate says what of the spec can never work, whatever the Secrets hold. The
// error begins with the path of a field, such as "caBundle.secretRef.name".
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
		return c.SecretRef.validate("caBundle.secretRef")
	}
	return c.ConfigMapRef.validate("caBundle.configMapRef")
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
	return c.SecretRef.validate("clientTLS.secretRef")
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
	return a.SecretRef.validate("authorization.secretRef")
}

func (b *BasicAuth) validate() error {
	if b == nil {
		return nil
	}
	return b.SecretRef.validate("basicAuth.secretRef")
}

func (r Ref) validate(field string) error {
	switch {
	case r.Name == "":
		return errors.New(field + ".name: required")
	case r.Namespace == "":
		return errors.New(field + ".namespace: required")
	}
	return nil
}

// isInvalidSchemeChar says that a character cannot be in the scheme of an Authorization.
func isInvalidSchemeChar(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, c)
}

// withField puts a field before an error, if there is one.
func withField(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", field, err)
}
