// Package token manages the token of the inspect endpoint of a pod.
//
// The token is in a Secret that the Guard of a process and the Credential of a client read with
// their own permissions. What is read with the token belongs in inspect, the protocol in wire.
package token

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect/wire"
)

const (
	// maxAge is how long a token is cached, and so how long a replaced token is accepted.
	maxAge = 5 * time.Second
	// minReadInterval is the minimum interval between two reads of the Secret. Requests with wrong tokens wait for it.
	minReadInterval = time.Second
	// readTimeout limits one read.
	readTimeout = 5 * time.Second
)

// Guard admits requests with the token in the Secret. It creates the Secret or the token if
// necessary. While it cannot read the token, it admits no request.
type Guard struct {
	secrets   Secrets
	namespace string
	log       *slog.Logger
	latest    atomic.Pointer[reading]
	// readSlot serializes reads.
	readSlot chan struct{}
	// logged is the last logged error.
	logged string
}

type reading struct {
	at    time.Time
	token wire.Token
	err   error
}

// NewGuard returns the Guard for a namespace.
func NewGuard(secrets Secrets, namespace string, log *slog.Logger) *Guard {
	g := &Guard{secrets: secrets, namespace: namespace, log: log, readSlot: make(chan struct{}, 1)}
	g.latest.Store(&reading{})
	return g
}

// Prepare reads or creates the token before the first request. Errors are logged; requests retry.
func (g *Guard) Prepare(ctx context.Context) {
	_, _ = g.readSince(ctx, time.Now()) // The error is logged.
}

// Admit implements wire.Guard. It reads the Secret again if the cached token is old or does not match.
func (g *Guard) Admit(ctx context.Context, given string) error {
	now := time.Now()
	if last := g.latest.Load(); now.Sub(last.at) < maxAge && last.admit(ctx, given) == nil {
		return nil
	}
	read, err := g.readSince(ctx, now)
	if err != nil {
		return err
	}
	return read.admit(ctx, given)
}

func (r *reading) admit(ctx context.Context, given string) error {
	if r.err != nil {
		return r.err
	}
	return r.token.Admit(ctx, given)
}

// readSince returns the result of a read that started after moment. Concurrent requests share a read.
func (g *Guard) readSince(ctx context.Context, moment time.Time) (*reading, error) {
	select {
	case g.readSlot <- struct{}{}:
		defer func() { <-g.readSlot }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	last := g.latest.Load()
	if last.at.After(moment) {
		return last, nil
	}
	next := time.NewTimer(minReadInterval - time.Since(last.at))
	defer next.Stop()
	select {
	case <-next.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return g.read(ctx), nil
}

// read reads the Secret. It continues if the client leaves, since others wait for it.
func (g *Guard) read(ctx context.Context) *reading {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	now := &reading{at: time.Now()}
	text, err := g.readWithRetry(ctx)
	now.token = wire.Token(text)
	if err != nil {
		now.err = fmt.Errorf("this process cannot read its token in the %s: see its log", describeSecret(g.namespace))
	}
	g.latest.Store(now)
	text = failure.Text(err)
	if text != "" && text != g.logged {
		g.log.Warn("inspect endpoint rejects all requests: cannot read its token", "secret", g.namespace+"/"+SecretName, "error", text)
	}
	g.logged = text
	return now
}

const maxAttempts = 3

func (g *Guard) readWithRetry(ctx context.Context) (string, error) {
	for range maxAttempts {
		text, err := g.readOrCreate(ctx)
		if !errors.Is(err, errConflict) {
			return text, err
		}
	}
	return "", fmt.Errorf("read the %s: %w", describeSecret(g.namespace), errConflict)
}

func (g *Guard) readOrCreate(ctx context.Context) (string, error) {
	secret, err := g.secrets.Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return g.create(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("read the %s (requires get and update): %w", describeSecret(g.namespace), err)
	}
	text, err := tokenOf(secret)
	if text != "" || err != nil {
		return text, err
	}
	stored, err := g.secrets.Update(ctx, withNewToken(secret), metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return "", errConflict
	case err != nil:
		return "", fmt.Errorf("update the %s (requires update): %w", describeSecret(g.namespace), err)
	}
	return tokenOf(stored)
}

func (g *Guard) create(ctx context.Context) (string, error) {
	stored, err := g.secrets.Create(ctx, withNewToken(NewSecret(g.namespace)), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return "", errConflict
	case err != nil:
		return "", fmt.Errorf("create the %s (or create it empty: kubectl create secret generic %s -n %s): %w",
			describeSecret(g.namespace), SecretName, g.namespace, err)
	}
	return tokenOf(stored)
}

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

// tokenOf returns the token in a Secret without trailing newlines; "" for none.
func tokenOf(secret *corev1.Secret) (string, error) {
	text := strings.TrimSpace(string(secret.Data[tokenKey]))
	odd := strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
	if text != "" && (odd || len(text) < minTokenBytes) {
		return "", fmt.Errorf("read the %s: token must have at least %d printable ASCII characters, without spaces",
			describeSecret(secret.Namespace), minTokenBytes)
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
	return c.cached, err
}
