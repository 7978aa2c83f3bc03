package token

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
