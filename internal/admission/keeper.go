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

	"github.com/setpoint-dev/setpoint/internal/store"
)

// KeeperOptions configure a Keeper. Names alone are needed.
type KeeperOptions struct {
	// Names are the DNS names and IP addresses by which the Server is called.
	Names []string
	// Lifetimes have defaults.
	Lifetimes Lifetimes
	// Secret is where the certificates are kept. The zero value keeps them in memory,
	// each Keeper its own.
	Secret SecretRef
	// Store watches the Secret and Client writes it; needed with a Secret.
	Store  *store.Store
	Client rest.Interface
	// Clock is the real one if nil, and Log slog.Default.
	Clock clock.Clock
	Log   *slog.Logger
}

// SecretRef names a Secret.
type SecretRef struct{ Namespace, Name string }

func (r SecretRef) String() string { return "Secret " + r.Namespace + "/" + r.Name }

// Keeper keeps the certificates by which a Server is known: the serving one, and
// the bundle of CAs by which it is to be trusted. It may be used by many
// goroutines.
type Keeper struct {
	options KeeperOptions
	secret  *secret
	// wake has Renew look again.
	wake chan struct{}
	// renewing is held while a step is taken.
	renewing sync.Mutex

	mu sync.Mutex
	// kept is what is served with, packed its contents; nil before there is any.
	kept   *keyring
	packed contents
	cert   *tls.Certificate
	err    error
	// changed is closed at the next change.
	changed chan struct{}
	// carried is since when every configuration has carried that bundle.
	carried carriage
	// former is the key of paths that configurations may carry until a time.
	former      PathKey
	formerUntil time.Time
}

// carriage says since when every configuration has carried a bundle.
type carriage struct {
	bundle []byte
	since  time.Time
}

// NewKeeper makes a Keeper. It has nothing before Follow.
func NewKeeper(o KeeperOptions) *Keeper {
	o.Lifetimes = o.Lifetimes.withDefaults()
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	k := &Keeper{options: o, wake: make(chan struct{}, 1), changed: make(chan struct{}), err: errNothingKept}
	if o.Secret != (SecretRef{}) {
		k.secret = newSecret(o)
	}
	return k
}

// errNothingKept says that nobody has looked yet.
var errNothingKept = errors.New("no certificate for the webhooks has been read or made yet")

// Certificate is what to serve with, or why there is nothing. Its pointer stays the
// same while it is the same.
func (k *Keeper) Certificate() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cert == nil {
		return nil, k.err
	}
	return k.cert, nil
}

// Bundle is the CAs by which that is to be trusted, in PEM form; nil before there
// are any.
func (k *Keeper) Bundle() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.packed[bundleKey]
}

// PathKeys are those of the paths by which the Server is asked.
func (k *Keeper) PathKeys() PathKeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil {
		return PathKeys{}
	}
	keys := PathKeys{Key: k.kept.pathKey}
	if k.options.Clock.Now().Before(k.formerUntil) {
		keys.Former = []PathKey{k.former}
	}
	return keys
}

// Err is why the certificates cannot be read, made or kept; nil if all is well.
// What was there before is served with meanwhile.
func (k *Keeper) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Changed is closed when Certificate, Bundle or Err next say something new.
func (k *Keeper) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// Carried tells since when every configuration has carried a bundle; the zero time
// says that not every one does.
func (k *Keeper) Carried(bundle []byte, since time.Time) {
	k.mu.Lock()
	same := since.Equal(k.carried.since) && bytes.Equal(bundle, k.carried.bundle)
	k.carried = carriage{bundle, since}
	k.mu.Unlock()
	if !same {
		k.awake()
	}
}

// Follow keeps what is served with up to date until ctx ends. Every replica
// follows, leading or not.
func (k *Keeper) Follow(ctx context.Context) error {
	if k.secret == nil {
		if _, err := k.renew(ctx); err != nil {
			return fmt.Errorf("make certificates for the webhooks: %w", err)
		}
		<-ctx.Done()
		return nil
	}
	return k.secret.follow(ctx, k)
}

// Renew makes and renews the certificates until ctx ends. Only who leads does, and
// only while it follows.
func (k *Keeper) Renew(ctx context.Context) {
	if k.secret != nil && !k.secret.await(ctx) {
		return
	}
	delay := minDelay
	for ctx.Err() == nil {
		again, err := k.renew(ctx)
		if ctx.Err() != nil {
			return
		}
		k.note(err)
		if err != nil {
			again, delay = k.options.Clock.Now().Add(delay), min(2*delay, maxDelay)
		} else {
			delay = minDelay
		}
		k.sleep(ctx, again)
	}
}

// The bounds of how long is waited after a failure.
const (
	minDelay = time.Second
	maxDelay = 30 * time.Second
)

func (k *Keeper) sleep(ctx context.Context, until time.Time) {
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

func (k *Keeper) awake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// renew takes what steps are due, and says when the next is.
func (k *Keeper) renew(ctx context.Context) (time.Time, error) {
	k.renewing.Lock()
	defer k.renewing.Unlock()
	found, err := k.find()
	if err != nil {
		return time.Time{}, err
	}
	made, err := plan(found.kept, k.situation(found), k.options.Lifetimes)
	if err != nil {
		return time.Time{}, err
	}
	if made.next == found.kept && found.problem == "" {
		return made.again, nil
	}
	packed, err := made.next.pack()
	if err != nil {
		return time.Time{}, fmt.Errorf("write certificates: %w", err)
	}
	if k.secret == nil {
		k.adopt(made.next, packed)
	} else if err := k.secret.write(ctx, found.stored, packed); err != nil {
		return k.options.Clock.Now().Add(minDelay), unlessRaced(err)
	} else {
		k.reread()
	}
	k.options.Log.Info("certificates for webhooks", "done", made.why, "because", found.problem, "until", made.next.serving.cert.NotAfter)
	return made.again, nil
}

// find looks up what is kept.
func (k *Keeper) find() (finding, error) {
	k.mu.Lock()
	held := k.kept
	k.mu.Unlock()
	if k.secret == nil {
		return finding{kept: held}, nil
	}
	return k.secret.find(held)
}

func (k *Keeper) situation(found finding) situation {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := situation{now: k.options.Clock.Now(), names: k.options.Names, hurry: found.hurry}
	if bytes.Equal(k.carried.bundle, k.packed[bundleKey]) {
		at.carried = k.carried.since
	}
	return at
}

// reread takes up what the Secret holds, if that makes sense. If not, what was
// there before is served with until somebody who leads has mended it.
func (k *Keeper) reread() {
	defer k.awake()
	found, err := k.secret.find(nil)
	if err != nil || found.kept == nil {
		return
	}
	if packed, err := found.kept.pack(); err == nil {
		k.adopt(found.kept, packed)
	}
}

// adopt serves with another keyring, if it is another.
func (k *Keeper) adopt(kept *keyring, packed contents) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if packed.equal(k.packed) {
		return
	}
	if k.kept == nil || !bytes.Equal(packed[servingCertKey], k.packed[servingCertKey]) {
		k.cert = kept.certificate()
	}
	kept = k.rekeyed(kept)
	k.kept, k.packed, k.err = kept, packed, nil
	k.announce()
}

// rekeyed goes on with the key of the paths while another one is being made, and
// answers the former paths until every API server knows those of the other. It is
// called with the lock held.
func (k *Keeper) rekeyed(kept *keyring) *keyring {
	switch {
	case k.kept == nil || k.kept.pathKey == kept.pathKey:
		return kept
	case kept.pathKey == "":
		same := *kept
		same.pathKey = k.kept.pathKey
		return &same
	}
	k.former, k.formerUntil = k.kept.pathKey, k.options.Clock.Now().Add(k.options.Lifetimes.Settled)
	return kept
}

// note remembers what is wrong, or that nothing is, and logs what is new.
func (k *Keeper) note(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && k.kept == nil {
		err = errNothingKept // Somebody else was faster, and is yet to be heard of.
	}
	if said(err) == said(k.err) {
		return
	}
	if err != nil {
		k.options.Log.Warn("the certificates for webhooks cannot be kept; trying again", "error", err.Error())
	}
	k.err = err
	k.announce()
}

// announce is called with the lock held.
func (k *Keeper) announce() {
	close(k.changed)
	k.changed = make(chan struct{})
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
