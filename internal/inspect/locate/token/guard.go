package token

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	// readSlot serializes reads.
	readSlot chan struct{}

	mu     sync.Mutex
	latest reading
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
	return &Guard{secrets: secrets, namespace: namespace, log: log, readSlot: make(chan struct{}, 1)}
}

// Prepare reads or creates the token before the first request. Errors are logged; requests retry.
func (g *Guard) Prepare(ctx context.Context) {
	_, _ = g.readSince(ctx, time.Now()) // The error is logged.
}

// Admit implements wire.Guard. It reads the Secret again if the cached token is old or does not match.
func (g *Guard) Admit(ctx context.Context, given string) error {
	now := time.Now()
	if last := g.lastReading(); now.Sub(last.at) < maxAge && last.admit(ctx, given) == nil {
		return nil
	}
	read, err := g.readSince(ctx, now)
	if err != nil {
		return err
	}
	return read.admit(ctx, given)
}

func (r reading) admit(ctx context.Context, given string) error {
	if r.err != nil {
		return r.err
	}
	return r.token.Admit(ctx, given)
}

func (g *Guard) lastReading() reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.latest
}

// readSince returns the result of a read that started after moment. Concurrent requests share a read.
func (g *Guard) readSince(ctx context.Context, moment time.Time) (reading, error) {
	select {
	case g.readSlot <- struct{}{}:
		defer func() { <-g.readSlot }()
	case <-ctx.Done():
		return reading{}, ctx.Err()
	}
	last := g.lastReading()
	if last.at.After(moment) {
		return last, nil
	}
	next := time.NewTimer(minReadInterval - time.Since(last.at))
	defer next.Stop()
	select {
	case <-next.C:
	case <-ctx.Done():
		return reading{}, ctx.Err()
	}
	return g.read(ctx), nil
}

// read reads the Secret. It continues if the client leaves, since others wait for it.
func (g *Guard) read(ctx context.Context) reading {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	now := reading{at: time.Now()}
	text, err := g.readWithRetry(ctx)
	now.token = wire.Token(text)
	if err != nil {
		now.err = fmt.Errorf("this process cannot read its token in the %s: see its log", describeSecret(g.namespace))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.latest = now
	g.report(err)
	return now
}

func (g *Guard) report(err error) {
	if err == nil {
		g.logged = ""
		return
	}
	if text := err.Error(); text != g.logged {
		g.logged = text
		g.log.Warn("inspect endpoint rejects all requests: cannot read its token", "secret", g.namespace+"/"+SecretName, "error", text)
	}
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
		return text, wrapReadError(g.namespace, err)
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

func wrapReadError(namespace string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read the %s: %w", describeSecret(namespace), err)
}
