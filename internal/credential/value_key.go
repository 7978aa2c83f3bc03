package credential

import (
	"cmp"
	"encoding/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// valueKey is a reference to one value, with the spec field that contains it.
type valueKey struct {
	object.Ref

	name, field string
}

// key returns the reference to the certificates, false if they are inline.
func (c *CABundle) key() (valueKey, bool) {
	switch {
	case c.SecretRef != nil:
		return valueKey{secretRef(c.SecretRef.NamespacedName), cmp.Or(c.SecretRef.Key, "ca.crt"), "caBundle.secretRef"}, true
	case c.ConfigMapRef != nil:
		return valueKey{configMapRef(c.ConfigMapRef.NamespacedName), cmp.Or(c.ConfigMapRef.Key, "ca.crt"), "caBundle.configMapRef"}, true
	}
	return valueKey{}, false
}

func (c *ClientTLS) keys() (cert, privateKey valueKey) {
	in := secretRef(c.SecretRef)
	return valueKey{in, cmp.Or(c.CertKey, "tls.crt"), "clientTLS"}, valueKey{in, cmp.Or(c.PrivateKeyKey, "tls.key"), "clientTLS"}
}

func (a *Authorization) key() valueKey {
	return valueKey{secretRef(a.SecretRef.NamespacedName), a.SecretRef.Key, "authorization.secretRef"}
}

func (b *BasicAuth) keys() (username, password valueKey) {
	in := secretRef(b.SecretRef)
	return valueKey{in, cmp.Or(b.UsernameKey, "username"), "basicAuth"}, valueKey{in, cmp.Or(b.PasswordKey, "password"), "basicAuth"}
}

// Objects lists the objects that the spec refers to.
func (s Spec) Objects() []object.Ref {
	var all []object.Ref
	if s.CABundle != nil {
		if k, named := s.CABundle.key(); named {
			all = append(all, k.Ref)
		}
	}
	if s.ClientTLS != nil {
		all = append(all, secretRef(s.ClientTLS.SecretRef))
	}
	if s.Authorization != nil {
		all = append(all, secretRef(s.Authorization.SecretRef.NamespacedName))
	}
	if s.BasicAuth != nil {
		all = append(all, secretRef(s.BasicAuth.SecretRef))
	}
	return all
}

// valueIn returns the key's value in an object, nil if absent.
func (k valueKey) valueIn(o *object.Object) ([]byte, error) {
	if k.Kind == object.KindOf(object.ConfigMaps) {
		if plain := o.Field("data", k.name); plain != nil {
			var text string
			err := json.Unmarshal(plain, &text)
			return []byte(text), err
		}
		return decodeBase64(o.Field("binaryData", k.name))
	}
	return decodeBase64(o.Field("data", k.name))
}

// decodeBase64 decodes a JSON string in base64.
func decodeBase64(field []byte) ([]byte, error) {
	if field == nil {
		return nil, nil
	}
	value := []byte{}
	err := json.Unmarshal(field, &value)
	return value, err
}
