// Package token knows the token that a process in a pod asks for, and its clients show.
//
// Here live the Secret that holds it, the Guard of the process and the Credential of a
// client, which both read that Secret with their own rights. What must not: what is read
// with the token (inspect), and how it is carried (inspect/wire). The host guards, and
// reach/pods shows it.
package token

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretName is the Secret that all programs of a namespace share.
const SecretName = "setpoint-inspect"

// tokenKey is where the Secret has the token.
const tokenKey = "token"

// minTokenBytes is the shortest token that is taken, in bytes.
const minTokenBytes = 16

// Secrets are those of a namespace; client-go's SecretInterface is one.
type Secrets interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	Create(ctx context.Context, secret *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, secret *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error)
}

// NewSecret is the Secret before a process has put a token into it.
func NewSecret(namespace string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName, Labels: map[string]string{"app.kubernetes.io/managed-by": "setpoint"}},
		Type:       corev1.SecretTypeOpaque,
	}
}

// withNewToken is a Secret with a new token.
func withNewToken(empty *corev1.Secret) *corev1.Secret {
	secret := empty.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[tokenKey] = []byte(rand.Text())
	return secret
}

var errInvalidToken = fmt.Errorf("its token must have at least %d characters, of printable ASCII and without spaces", minTokenBytes)

// tokenOf is the token in a Secret; "" if it has none. The line that an editor adds is
// no part of it.
func tokenOf(secret *corev1.Secret) (string, error) {
	text := strings.TrimSpace(string(secret.Data[tokenKey]))
	odd := strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
	if text != "" && (odd || len(text) < minTokenBytes) {
		return "", errInvalidToken
	}
	return text, nil
}

// describeSecret is what messages call the Secret.
func describeSecret(namespace string) string { return "Secret " + namespace + "/" + SecretName }

var errConflict = errors.New("others change it at the same time")
