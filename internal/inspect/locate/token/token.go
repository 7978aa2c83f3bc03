// Package token manages the token of the inspect endpoint of a pod.
//
// The token is in a Secret that the Guard of a process and the Credential of a client read with
// their own permissions. What is read with the token belongs in model, the protocol in wire.
package token

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretName is the Secret that all programs in a namespace share.
const SecretName = "setpoint-inspect"

const tokenKey = "token"

const minTokenBytes = 16

// Secrets reads and writes the Secrets of a namespace, like client-go's SecretInterface.
type Secrets interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	Create(ctx context.Context, secret *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, secret *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error)
}

// NewSecret returns the Secret without a token.
func NewSecret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName,
			Labels: map[string]string{"app.kubernetes.io/managed-by": "setpoint"}},
		Type: corev1.SecretTypeOpaque,
	}
}

func withNewToken(empty *corev1.Secret) *corev1.Secret {
	secret := empty.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[tokenKey] = []byte(rand.Text())
	return secret
}

var errInvalidToken = fmt.Errorf("token must have at least %d printable ASCII characters, without spaces", minTokenBytes)

// tokenOf returns the token in a Secret without trailing newlines; "" for none.
func tokenOf(secret *corev1.Secret) (string, error) {
	text := strings.TrimSpace(string(secret.Data[tokenKey]))
	odd := strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
	if text != "" && (odd || len(text) < minTokenBytes) {
		return "", errInvalidToken
	}
	return text, nil
}

func describeSecret(namespace string) string { return "Secret " + namespace + "/" + SecretName }

var errConflict = errors.New("object changed concurrently")

// Credential reads the token with the permissions of the user.
type Credential struct {
	secrets   Secrets
	namespace string

	mu     sync.Mutex
	cached string
}

// NewCredential returns the Credential for a namespace.
func NewCredential(secrets Secrets, namespace string) *Credential {
	return &Credential{secrets: secrets, namespace: namespace}
}

// Token implements wire.Credential. It returns "" if there is no Secret: the process creates it
// when it rejects a request.
func (c *Credential) Token(ctx context.Context, refused string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cached != "" && c.cached != refused {
		return c.cached, nil
	}
	secret, err := c.secrets.Get(ctx, SecretName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		c.cached = ""
		return "", nil
	case err != nil:
		return "", fmt.Errorf("get the %s with the token of the inspect endpoint: %w", describeSecret(c.namespace), err)
	}
	c.cached, err = tokenOf(secret)
	return c.cached, wrapReadError(c.namespace, err)
}
