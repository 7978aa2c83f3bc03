package credential

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Spec is the connection settings of a webhook or host. The zero value needs no
// credentials. Empty keys and types have the API's defaults.
type Spec api.ConnectionSettings

// IsZero reports whether the spec refers to no objects and needs no Source.
func (s Spec) IsZero() bool { return s == Spec{} }

// HasReferences reports whether a valid spec refers to Secrets or ConfigMaps.
func (s Spec) HasReferences() bool { return len(s.keys()) > 0 }

// valueKey is a reference to one value, with the spec field that contains it.
type valueKey struct {
	object.Ref

	role role
	// name is the key in the object.
	name, field string
}

// role is what a value is for.
type role int

const (
	caBundle role = iota
	clientCert
	clientKey
	token
	username
	password
)

func (k valueKey) wrap(err error) error { return fmt.Errorf("%s: key %s: %w", k.Ref, k.name, err) }

// valueIn returns the key's value in an object, nil if absent.
func (k valueKey) valueIn(o *object.Object) (value []byte, err error) {
	field := o.Field("data", k.name)
	if k.Kind == object.KindOf(object.ConfigMaps) {
		if field != nil {
			var text string
			err := json.Unmarshal(field, &text)
			return []byte(text), err
		}
		field = o.Field("binaryData", k.name)
	}
	if field == nil {
		return nil, nil
	}
	value = []byte{}
	err = json.Unmarshal(field, &value) // It is in base64.
	return value, err
}

// keys returns the references of the spec.
func (s Spec) keys() (all []valueKey) {
	add := func(of role, in object.Resource, at api.ObjectReference, key, field string) {
		all = append(all, valueKey{in.Ref(at.Namespace, at.Name), of, key, field})
	}
	if c := s.CABundle; c != nil && c.SecretRef != nil {
		add(caBundle, object.Secrets, c.SecretRef.ObjectReference, cmp.Or(c.SecretRef.Key, "ca.crt"), "caBundle.secretRef")
	}
	if c := s.CABundle; c != nil && c.ConfigMapRef != nil {
		add(caBundle, object.ConfigMaps, c.ConfigMapRef.ObjectReference, cmp.Or(c.ConfigMapRef.Key, "ca.crt"), "caBundle.configMapRef")
	}
	if c := s.ClientTLS; c != nil {
		add(clientCert, object.Secrets, c.SecretRef, cmp.Or(c.CertKey, "tls.crt"), "clientTLS.secretRef")
		add(clientKey, object.Secrets, c.SecretRef, cmp.Or(c.PrivateKeyKey, "tls.key"), "clientTLS.secretRef")
	}
	if a := s.Authorization; a != nil {
		add(token, object.Secrets, a.SecretRef.ObjectReference, a.SecretRef.Key, "authorization.secretRef")
	}
	if b := s.BasicAuth; b != nil {
		add(username, object.Secrets, b.SecretRef, cmp.Or(b.UsernameKey, "username"), "basicAuth.secretRef")
		add(password, object.Secrets, b.SecretRef, cmp.Or(b.PasswordKey, "password"), "basicAuth.secretRef")
	}
	return all
}

// Objects lists the objects that the spec refers to.
func (s Spec) Objects() []object.Ref {
	return lists.Union(nil, lists.Map(s.keys(), func(k valueKey) object.Ref { return k.Ref }))
}

var errNoCertificates = errors.New("no PEM certificates")

// Validate returns an error if the spec is invalid regardless of what the Secrets
// contain. The error starts with a field path, such as "caBundle.secretRef.name".
func (s Spec) Validate() error {
	keys := s.keys()
	switch a, c := s.Authorization, s.CABundle; {
	case a != nil && s.BasicAuth != nil:
		return errors.New("authorization: cannot be set together with basicAuth")
	case c != nil && (c.Inline != "") == slices.ContainsFunc(keys, func(k valueKey) bool { return k.role == caBundle }),
		c != nil && c.SecretRef != nil && c.ConfigMapRef != nil:
		return errors.New("caBundle: set exactly one of inline, secretRef and configMapRef")
	case c != nil && c.Inline != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(c.Inline)):
		return fmt.Errorf("caBundle.inline: %w", errNoCertificates)
	case a != nil && strings.EqualFold(a.Type, "basic"):
		return fmt.Errorf("authorization.type: %s use basicAuth", a.Type)
	case a != nil && strings.ContainsFunc(a.Type, isInvalidSchemeChar):
		return errors.New("authorization.type: must be one word, such as Bearer")
	}
	for _, k := range keys {
		for _, part := range []struct{ name, value string }{{"key", k.name}, {"name", k.Name}, {"namespace", k.Namespace}} {
			if part.value == "" {
				return fmt.Errorf("%s.%s: required", k.field, part.name)
			}
		}
	}
	return nil
}

// isInvalidSchemeChar reports whether c is invalid in an authorization scheme.
func isInvalidSchemeChar(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, c)
}
