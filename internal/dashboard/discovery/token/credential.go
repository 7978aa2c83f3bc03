package token

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Credential has the token of the processes in a namespace, by the user's own right to
// get the Secret.
type Credential struct {
	secrets   Secrets
	namespace string

	mu     sync.Mutex
	cached string
}

// NewCredential makes a Credential of the Secret in a namespace.
func NewCredential(secrets Secrets, namespace string) *Credential {
	return &Credential{secrets: secrets, namespace: namespace}
}

// Token implements wire.Credential. It is "" where there is no Secret: a process makes
// one when it refuses a request.
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
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("you lack the right to get the %s, with the token that the process asks for: %w", describeSecret(c.namespace), err)
	case err != nil:
		return "", fmt.Errorf("get the %s, with the token that the process asks for: %w", describeSecret(c.namespace), err)
	}
	c.cached, err = tokenOf(secret)
	return c.cached, wrapReadError(c.namespace, err)
}
