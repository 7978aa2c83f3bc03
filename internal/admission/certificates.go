package admission

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

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/setpoint-dev/setpoint/internal/cache"
)

// CertificateManagerOptions configure a Keeper. Names alone are needed.
type CertificateManagerOptions struct {
	// Names are the DNS names and IP addresses by which the Server is called.
	Names []string
	// Lifetimes have defaults.
	Lifetimes Lifetimes
	// Secret is where the certificates are kept. The zero value keeps them in memory,
	// each Keeper its own.
	Secret SecretRef
	// Store watches the Secret and Client writes it; needed with a Secret.
	Store  *cache.Cache
	Client rest.Interface
	// Clock is the real one if nil, and Log slog.Default.
	Clock clock.Clock
	Log   *slog.Logger
}

// SecretRef names a Secret.
type SecretRef struct{ Namespace, Name string }

func (r SecretRef) String() string { return "Secret " + r.Namespace + "/" + r.Name }

// CertificateManager keeps the certificates by which a Server is known: the serving one, and
// the bundle of CAs by which it is to be trusted. It may be used by many
// goroutines.
type CertificateManager struct {
	options CertificateManagerOptions
	secret  *secret
	// wake has Renew look again.
	wake chan struct{}
	// renewing is held while a step is taken.
	renewing sync.Mutex

	mu sync.Mutex
	// keyring is what is served with, packed its contents; nil before there is any.
	keyring *keyring
	data    secretData
	cert    *tls.Certificate
	err     error
	// changed is closed at the next change.
	changed chan struct{}
	// propagated is since when every configuration has carried that bundle.
	propagated propagation
	// previousPathKey is the key of paths that configurations may carry until a time.
	previousPathKey PathKey
	previousUntil   time.Time
}

// propagation says since when every configuration has carried a bundle.
type propagation struct {
	bundle []byte
	since  time.Time
}

// NewCertificateManager makes a Keeper. It has nothing before Follow.
func NewCertificateManager(o CertificateManagerOptions) *CertificateManager {
	o.Lifetimes = o.Lifetimes.withDefaults()
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	k := &CertificateManager{options: o, wake: make(chan struct{}, 1), changed: make(chan struct{}), err: errNoCertificate}
	if o.Secret != (SecretRef{}) {
		k.secret = newSecret(o)
	}
	return k
}

// errNoCertificate says that nobody has looked yet.
var errNoCertificate = errors.New("no certificate for the webhooks has been read or made yet")

// Certificate is what to serve with, or why there is nothing. Its pointer stays the
// same while it is the same.
func (k *CertificateManager) Certificate() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cert == nil {
		return nil, k.err
	}
	return k.cert, nil
}

// Bundle is the CAs by which that is to be trusted, in PEM form; nil before there
// are any.
func (k *CertificateManager) Bundle() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.data[bundleKey]
}

// PathKeys are those of the paths by which the Server is asked.
func (k *CertificateManager) PathKeys() PathKeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keyring == nil {
		return PathKeys{}
	}
	keys := PathKeys{Key: k.keyring.pathKey}
	if k.options.Clock.Now().Before(k.previousUntil) {
		keys.Previous = []PathKey{k.previousPathKey}
	}
	return keys
}

// Err is why the certificates cannot be read, made or kept; nil if all is well.
// What was there before is served with meanwhile.
func (k *CertificateManager) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Changed is closed when Certificate, Bundle or Err next say something new.
func (k *CertificateManager) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// Propagated tells since when every configuration has carried a bundle; the zero time
// says that not every one does.
func (k *CertificateManager) Propagated(bundle []byte, since time.Time) {
	k.mu.Lock()
	same := since.Equal(k.propagated.since) && bytes.Equal(bundle, k.propagated.bundle)
	k.propagated = propagation{bundle, since}
	k.mu.Unlock()
	if !same {
		k.trigger()
	}
}

// Watch keeps what is served with up to date until ctx ends. Every replica
// follows, leading or not.
func (k *CertificateManager) Watch(ctx context.Context) error {
	if k.secret == nil {
		if _, err := k.renew(ctx); err != nil {
			return fmt.Errorf("make certificates for the webhooks: %w", err)
		}
		<-ctx.Done()
		return nil
	}
	return k.secret.watch(ctx, k)
}

// Renew makes and renews the certificates until ctx ends. Only who leads does, and
// only while it follows.
func (k *CertificateManager) Renew(ctx context.Context) {
	if k.secret != nil && !k.secret.waitForSync(ctx) {
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

// The bounds of how long is waited after a failure.
const (
	minDelay = time.Second
	maxDelay = 30 * time.Second
)

func (k *CertificateManager) waitUntil(ctx context.Context, until time.Time) {
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

func (k *CertificateManager) trigger() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// renew takes what steps are due, and says when the next is.
func (k *CertificateManager) renew(ctx context.Context) (time.Time, error) {
	k.renewing.Lock()
	defer k.renewing.Unlock()
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
	if k.secret == nil {
		k.setKeyring(made.keyring, packed)
	} else if err := k.secret.write(ctx, found.object, packed); err != nil {
		return k.options.Clock.Now().Add(minDelay), ignoreConflict(err)
	} else {
		k.reload()
	}
	k.options.Log.Info("certificates for webhooks", "done", made.reason, "because", found.writeReason, "until", made.keyring.serving.cert.NotAfter)
	return made.nextCheck, nil
}

// load looks up what is kept.
func (k *CertificateManager) load() (loadedSecret, error) {
	k.mu.Lock()
	reservation := k.keyring
	k.mu.Unlock()
	if k.secret == nil {
		return loadedSecret{keyring: reservation}, nil
	}
	return k.secret.load(reservation)
}

func (k *CertificateManager) rotationInput(found loadedSecret) rotationInput {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := rotationInput{now: k.options.Clock.Now(), names: k.options.Names, force: found.force}
	if bytes.Equal(k.propagated.bundle, k.data[bundleKey]) {
		at.propagatedSince = k.propagated.since
	}
	return at
}

// reload takes up what the Secret holds, if that makes sense. If not, what was
// there before is served with until somebody who leads has mended it.
func (k *CertificateManager) reload() {
	defer k.trigger()
	found, err := k.secret.load(nil)
	if err != nil || found.keyring == nil {
		return
	}
	if packed, err := found.keyring.encode(); err == nil {
		k.setKeyring(found.keyring, packed)
	}
}

// setKeyring serves with another keyring, if it is another.
func (k *CertificateManager) setKeyring(current *keyring, packed secretData) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if packed.equal(k.data) {
		return
	}
	if k.keyring == nil || !bytes.Equal(packed[servingCertKey], k.data[servingCertKey]) {
		k.cert = current.certificate()
	}
	current = k.mergePathKey(current)
	k.keyring, k.data, k.err = current, packed, nil
	k.notifyChanged()
}

// mergePathKey goes on with the key of the paths while another one is being made, and
// answers the former paths until every API server knows those of the other. It is
// called with the lock held.
func (k *CertificateManager) mergePathKey(current *keyring) *keyring {
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

// setError remembers what is wrong, or that nothing is, and logs what is new.
func (k *CertificateManager) setError(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && k.keyring == nil {
		err = errNoCertificate // Somebody else was faster, and is yet to be heard of.
	}
	if errorText(err) == errorText(k.err) {
		return
	}
	if err != nil {
		k.options.Log.Warn("the certificates for webhooks cannot be kept; trying again", "error", err.Error())
	}
	k.err = err
	k.notifyChanged()
}

// notifyChanged is called with the lock held.
func (k *CertificateManager) notifyChanged() {
	close(k.changed)
	k.changed = make(chan struct{})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
