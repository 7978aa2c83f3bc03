// Package certs makes the serving certificate of the webhook server and the CAs that
// verify it, renews them before they expire, and stores them in a Secret that all replicas
// share; or it uses a Secret that users provide. The manager runs one Manager: every replica
// watches, and the leader renews.
package certs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Options configure a Manager. Only Names is required.
type Options struct {
	// Names are the DNS names and IP addresses of the Server.
	Names     []string
	Lifetimes Lifetimes
	// Secret stores the certificates. The zero value keeps them in memory.
	Secret types.NamespacedName
	// Provided means that users, or another program, keep the certificates in the Secret. It
	// is only read. ServerName is the name that API servers verify.
	Provided   bool
	ServerName string
	// Store watches the Secret and Client writes it; both are required with a Secret.
	Store  *cache.Cache
	Client rest.Interface
	// Clock is the real clock if nil, and Log slog.Default.
	Clock clock.Clock
	Log   *slog.Logger
}

// Manager manages the serving certificate of a Server and the bundle of CAs
// that verifies it. It is safe for concurrent use.
type Manager struct {
	options Options
	// wake wakes up Renew.
	wake chan struct{}
	// renewing is held during a rotation.
	renewing sync.Mutex

	// view watches the Secret; nil without one. stored receives its changes.
	view   *cache.View
	stored chan struct{}

	mu sync.Mutex
	// keyring is in use, and data its encoding; nil before there is one.
	keyring *keyring
	data    secretData
	cert    *tls.Certificate
	err     error
	// changed is closed at the next change.
	changed chan struct{}
	// propagated is since when every configuration has had the bundle.
	propagated propagation
	// previousPathKey is accepted until previousUntil, because configurations may still
	// have it.
	previousPathKey admission.PathKey
	previousUntil   time.Time
}

// propagation is since when every configuration has had a bundle.
type propagation struct {
	bundle []byte
	since  time.Time
}

// NewManager returns a Manager without certificates; Watch provides
// them, and ends the watch of the Secret.
func NewManager(o Options) *Manager {
	o.Lifetimes = o.Lifetimes.withDefaults()
	o.Clock, o.Log = cmp.Or[clock.Clock](o.Clock, clock.RealClock{}), cmp.Or(o.Log, slog.Default())
	k := &Manager{
		options: o, wake: make(chan struct{}, 1), stored: make(chan struct{}, 1), changed: make(chan struct{}), err: errNoCertificate,
	}
	if name := o.Secret; !k.inMemory() {
		k.view = o.Store.Watch(cache.Selection{Resource: object.Secrets, Namespace: name.Namespace, Name: name.Name},
			func(cache.Event) { wake(k.stored) })
	}
	return k
}

// inMemory reports whether no Secret stores the certificates.
func (k *Manager) inMemory() bool { return k.options.Secret == types.NamespacedName{} }

var errNoCertificate = errors.New("no webhook certificate yet")

// ServingCertificate returns the serving certificate, or the error why there is none. The
// pointer is the same until the certificate changes.
func (k *Manager) ServingCertificate() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cert == nil {
		return nil, k.err
	}
	return k.cert, nil
}

// Bundle returns the CAs as PEM, or nil.
func (k *Manager) Bundle() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.data[bundleKey]
}

// PathKeys returns the keys of the webhook paths.
func (k *Manager) PathKeys() admission.PathKeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keyring == nil {
		return admission.PathKeys{}
	}
	keys := admission.PathKeys{Key: k.keyring.pathKey}
	if k.options.Clock.Now().Before(k.previousUntil) {
		keys.Previous = []admission.PathKey{k.previousPathKey}
	}
	return keys
}

// Err returns why the certificates cannot be read, created or stored, or nil. Previous
// certificates stay in use.
func (k *Manager) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Changed is closed when ServingCertificate, Bundle or Err change.
func (k *Manager) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// Propagated sets since when every configuration has had a bundle; the zero time means
// that some do not.
func (k *Manager) Propagated(bundle []byte, since time.Time) {
	k.mu.Lock()
	same := since.Equal(k.propagated.since) && bytes.Equal(bundle, k.propagated.bundle)
	k.propagated = propagation{bundle, since}
	k.mu.Unlock()
	if !same {
		wake(k.wake)
	}
}

// Watch follows the Secret until ctx ends. Every replica watches, leader or not.
func (k *Manager) Watch(ctx context.Context) error {
	if k.inMemory() {
		if _, err := k.renew(ctx); err != nil {
			return fmt.Errorf("create webhook certificates: %w", err)
		}
		<-ctx.Done()
		return nil
	}
	k.watchSecret(ctx)
	return nil
}

// Renew creates and renews certificates until ctx ends. Only the leader renews, and only
// while it watches.
func (k *Manager) Renew(ctx context.Context) {
	if !k.inMemory() && !k.waitForSync(ctx) {
		return
	}
	delay := minDelay
	for ctx.Err() == nil {
		again, err := k.renew(ctx)
		if ctx.Err() != nil {
			return
		}
		k.setError(err)
		if err != nil {
			again, delay = k.options.Clock.Now().Add(delay), min(2*delay, maxDelay)
		} else {
			delay = minDelay
		}
		k.waitUntil(ctx, again)
	}
}

// The limits of the backoff after a failure.
const (
	minDelay = time.Second
	maxDelay = 30 * time.Second
)

func (k *Manager) waitUntil(ctx context.Context, until time.Time) {
	timer := k.options.Clock.NewTimer(until.Sub(k.options.Clock.Now()))
	defer timer.Stop()
	if !k.options.Clock.Now().Before(until) {
		return // It has passed while the timer was being set.
	}
	select {
	case <-k.wake:
	case <-timer.C():
	case <-ctx.Done():
	}
}

// wake wakes up who waits for a channel of one place.
func wake(waiting chan<- struct{}) {
	select {
	case waiting <- struct{}{}:
	default:
	}
}

// renew makes the rotations that are due, and returns when to check again.
func (k *Manager) renew(ctx context.Context) (time.Time, error) {
	k.renewing.Lock()
	defer k.renewing.Unlock()
	if k.options.Provided {
		return k.loadProvided()
	}
	found, err := k.load()
	if err != nil {
		return time.Time{}, err
	}
	made, err := planRotation(found.keyring, k.rotationInput(found), k.options.Lifetimes)
	if err != nil {
		return time.Time{}, err
	}
	if made.keyring == found.keyring && found.writeReason == "" {
		return made.nextCheck, nil
	}
	packed, err := made.keyring.encode()
	if err != nil {
		return time.Time{}, fmt.Errorf("write certificates: %w", err)
	}
	if k.inMemory() {
		k.setKeyring(made.keyring, packed)
	} else if err := k.writeSecret(ctx, found.object, packed); err != nil {
		return k.options.Clock.Now().Add(minDelay), ignoreConflict(err)
	} else {
		k.reload()
	}
	k.options.Log.Info("webhook certificates renewed", "steps", made.reason, "reason", found.writeReason, "until",
		made.keyring.serving.cert.NotAfter)
	return made.nextCheck, nil
}

func (k *Manager) load() (loadedSecret, error) {
	k.mu.Lock()
	reservation := k.keyring
	k.mu.Unlock()
	if k.inMemory() {
		return loadedSecret{keyring: reservation}, nil
	}
	return k.loadSecret(reservation)
}

func (k *Manager) rotationInput(found loadedSecret) rotationInput {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := rotationInput{now: k.options.Clock.Now(), names: k.options.Names, force: found.force}
	if bytes.Equal(k.propagated.bundle, k.data[bundleKey]) {
		at.propagatedSince = k.propagated.since
	}
	return at
}

// reload uses the keyring of the Secret, if it is valid. Otherwise the previous one stays
// in use until the leader repairs the Secret.
func (k *Manager) reload() {
	defer wake(k.wake)
	if k.options.Provided {
		_, err := k.loadProvided()
		k.setError(err)
		return
	}
	found, err := k.loadSecret(nil)
	if err != nil || found.keyring == nil {
		return
	}
	if packed, err := found.keyring.encode(); err == nil {
		k.setKeyring(found.keyring, packed)
	}
}

// setKeyring uses a keyring if it differs, and reports whether it does.
func (k *Manager) setKeyring(current *keyring, packed secretData) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if packed.equal(k.data) {
		return false
	}
	if k.keyring == nil || !bytes.Equal(packed[servingCertKey], k.data[servingCertKey]) {
		k.cert = current.certificate()
	}
	current = k.mergePathKey(current)
	k.keyring, k.data, k.err = current, packed, nil
	k.notifyChanged()
	return true
}

// mergePathKey keeps the path key while a new keyring has none, and accepts the previous
// key until every API server has the new one. The lock must be held.
func (k *Manager) mergePathKey(current *keyring) *keyring {
	switch {
	case k.keyring == nil || k.keyring.pathKey == current.pathKey:
		return current
	case current.pathKey == "":
		same := *current
		same.pathKey = k.keyring.pathKey
		return &same
	}
	k.previousPathKey, k.previousUntil = k.keyring.pathKey, k.options.Clock.Now().Add(k.options.Lifetimes.PropagationDelay)
	return current
}

// setError sets the error or nil, and logs a new one.
func (k *Manager) setError(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && k.keyring == nil {
		err = errNoCertificate // Another replica created it first; its event has not arrived yet.
	}
	if failure.Text(err) == failure.Text(k.err) {
		return
	}
	switch {
	case err == nil:
	case k.options.Provided:
		k.options.Log.Warn("webhook certificate not usable; waiting for another one", "error", err.Error())
	default:
		k.options.Log.Warn("failed to store the webhook certificates; retrying", "error", err.Error())
	}
	k.err = err
	k.notifyChanged()
}

// notifyChanged must be called with the lock held.
func (k *Manager) notifyChanged() {
	close(k.changed)
	k.changed = make(chan struct{})
}
