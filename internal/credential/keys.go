package credential

import (
	"cmp"
	"encoding/json"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// key is one value that a spec names, and the field that names it.
type key struct {
	holder

	name, field string
}

// key says where the certificates are; false if they are inline.
func (c *CABundle) key() (key, bool) {
	switch {
	case c.SecretRef != nil:
		return key{holder{secret, c.SecretRef.Ref}, cmp.Or(c.SecretRef.Key, "ca.crt"), "caBundle.secretRef"}, true
	case c.ConfigMapRef != nil:
		return key{holder{configMap, c.ConfigMapRef.Ref}, cmp.Or(c.ConfigMapRef.Key, "ca.crt"), "caBundle.configMapRef"}, true
	}
	return key{}, false
}

func (c *ClientTLS) keys() (cert, private key) {
	in := holder{secret, c.SecretRef}
	return key{in, cmp.Or(c.CertKey, "tls.crt"), "clientTLS"}, key{in, cmp.Or(c.PrivateKeyKey, "tls.key"), "clientTLS"}
}

func (a *Authorization) key() key {
	return key{holder{secret, a.SecretRef.Ref}, a.SecretRef.Key, "authorization.secretRef"}
}

func (b *BasicAuth) keys() (username, password key) {
	in := holder{secret, b.SecretRef}
	return key{in, cmp.Or(b.UsernameKey, "username"), "basicAuth"}, key{in, cmp.Or(b.PasswordKey, "password"), "basicAuth"}
}

// holders are the objects that the spec names.
func (s Spec) holders() []holder {
	var all []holder
	if s.CABundle != nil {
		if k, named := s.CABundle.key(); named {
			all = append(all, k.holder)
		}
	}
	if s.ClientTLS != nil {
		all = append(all, holder{secret, s.ClientTLS.SecretRef})
	}
	if s.Authorization != nil {
		all = append(all, holder{secret, s.Authorization.SecretRef.Ref})
	}
	if s.BasicAuth != nil {
		all = append(all, holder{secret, s.BasicAuth.SecretRef})
	}
	return all
}

// of reads the key's value out of its object; nil if there is none.
func (k key) of(o *object.Object) ([]byte, error) {
	if k.kind == configMap {
		if plain := o.Field("data", k.name); plain != nil {
			var text string
			err := json.Unmarshal(plain, &text)
			return []byte(text), err
		}
		return decoded(o.Field("binaryData", k.name))
	}
	return decoded(o.Field("data", k.name))
}

// decoded reads a value that is written in base64.
func decoded(field []byte) ([]byte, error) {
	if field == nil {
		return nil, nil
	}
	value := []byte{}
	err := json.Unmarshal(field, &value)
	return value, err
}
