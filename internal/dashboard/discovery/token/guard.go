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

	"github.com/setpoint-dev/setpoint/internal/dashboard/wire"
)

const (
	// maxAge is how long a token counts that was read: the longest time that one
	// is accepted which has been replaced.
	maxAge = 5 * time.Second
	// minReadInterval is the shortest time between two readings, whatever is asked: wrong tokens
	// wait for it.
	minReadInterval = time.Second
	// readTimeout bounds one reading.
	readTimeout = 5 * time.Second
)

// Guard admits requests that show the token of the Secret. If there is no Secret, or no
// token in it, the Guard makes one, where it may. As long as it cannot read the token it
// admits no request.
type Guard struct {
	secrets   Secrets
	namespace string
	log       *slog.Logger
	// readSlot has a place for the request that reads.
	readSlot chan struct{}

	mu     sync.Mutex
	latest reading
	// logged is the problem that the log has.
	logged string
}

// reading is what the Secret held at a time, or why that is not known.
type reading struct {
	at    time.Time
	token wire.Token
	err   error
}

// NewGuard makes a Guard of the Secret in a namespace.
func NewGuard(secrets Secrets, namespace string, log *slog.Logger) *Guard {
	return &Guard{secrets: secrets, namespace: namespace, log: log, readSlot: make(chan struct{}, 1)}
}

// Prepare reads the token, or makes it, before the first request. The log says if that
// fails; requests try again.
func (g *Guard) Prepare(ctx context.Context) {
	_, _ = g.readSince(ctx, time.Now()) // The log has the problem.
}

// Admit implements wire.Guard. It reads the Secret again where what it read before is
// old, or does not match: the token may be a newer one.
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

// readSince is a reading that began after a moment. Requests that wait at the same
// time share one.
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

// read reads the Secret. A client that leaves does not end it: others wait for it too.
func (g *Guard) read(ctx context.Context) reading {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	now := reading{at: time.Now()}
	text, err := g.readWithRetry(ctx)
	now.token = wire.Token(text)
	if err != nil {
		now.err = fmt.Errorf("this process cannot read its token in the %s; its log says why", describeSecret(g.namespace))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.latest = now
	g.report(err)
	return now
}

// report logs a problem that is new.
func (g *Guard) report(err error) {
	if err == nil {
		g.logged = ""
		return
	}
	if text := err.Error(); text != g.logged {
		g.logged = text
		g.log.Warn("the inspect endpoint refuses all requests: it cannot read its token", "secret", g.namespace+"/"+SecretName, "error", text)
	}
}

// maxAttempts is how often a reading begins anew because others write the Secret.
const maxAttempts = 3

// readWithRetry reads the token, or makes one where there is none.
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
		return "", fmt.Errorf("read the %s (this takes get and update of it): %w", describeSecret(g.namespace), err)
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
		return "", fmt.Errorf("put a token into the %s (this takes update of it): %w", describeSecret(g.namespace), err)
	}
	return tokenOf(stored)
}

func (g *Guard) create(ctx context.Context) (string, error) {
	stored, err := g.secrets.Create(ctx, withNewToken(NewSecret(g.namespace)), metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return "", errConflict
	case err != nil:
		return "", fmt.Errorf("create the %s (or create it empty: kubectl create secret generic %s -n %s): %w", describeSecret(g.namespace), SecretName, g.namespace, err)
	}
	return tokenOf(stored)
}

func wrapReadError(namespace string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read the %s: %w", describeSecret(namespace), err)
}
