package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Lifetimes are those of certificates. The zero value has the defaults.
type Lifetimes struct {
	// Certificate is the lifetime of a serving certificate, 90 days by default, renewed
	// after two thirds.
	Certificate time.Duration
	// Authority is the lifetime of a CA, two years by default; the next one is added
	// after two thirds.
	Authority time.Duration
	// PropagationDelay is how long every configuration must have had a new CA before it
	// signs, so that all API servers know it: 5 minutes by default.
	PropagationDelay time.Duration
}

func (l Lifetimes) withDefaults() Lifetimes {
	const day = 24 * time.Hour
	l.Certificate = cmp.Or(l.Certificate, 90*day)
	l.Authority = cmp.Or(l.Authority, 2*365*day)
	l.PropagationDelay = cmp.Or(l.PropagationDelay, 5*time.Minute)
	return l
}

// rotationInput is what a rotation depends on besides the keyring.
type rotationInput struct {
	now time.Time
	// names are those of the serving certificate.
	names []string
	// propagatedSince is since when every configuration has had the bundle; zero if some
	// do not.
	propagatedSince time.Time
	// force adds a new CA before it is due.
	force bool
}

// rotation is the next keyring.
type rotation struct {
	// keyring is the same pointer if there is nothing to do.
	keyring *keyring
	// reason is for the log.
	reason    string
	nextCheck time.Time
}

// planRotation returns the next keyring for the current one, which may be nil. It is a
// pure function, except for new keys.
//
// At any time, each bundle that it returned since a serving certificate verifies that
// certificate until it expires, and so do earlier bundles that configurations may still
// have.
func planRotation(current *keyring, at rotationInput, l Lifetimes) (rotation, error) {
	p := rotationPlanner{rotationInput: at, lifetimes: l}
	next, err := p.advance(current)
	if err != nil {
		return rotation{}, err
	}
	next = p.withPathKey(current, next)
	return rotation{keyring: next, reason: strings.Join(p.steps, "; "), nextCheck: p.nextCheck(next)}, nil
}

type rotationPlanner struct {
	rotationInput

	lifetimes Lifetimes
	steps     []string
}

func (p *rotationPlanner) addStep(what string) { p.steps = append(p.steps, what) }

// advance makes all steps that are due. A new CA is added last, because no configuration
// has it yet.
func (p *rotationPlanner) advance(current *keyring) (*keyring, error) {
	if current == nil {
		p.addStep("created a CA and a serving certificate")
		return p.newKeyring()
	}
	next := current
	for _, advance := range []func(*keyring) (*keyring, error){p.promoteNextCA, p.replaceInvalidCA, p.renewServing, p.dropExpired, p.addNextCA} {
		var err error
		if next, err = advance(next); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// withPathKey keeps the path key, or creates the first one.
func (p *rotationPlanner) withPathKey(current, next *keyring) *keyring {
	var key PathKey
	if current != nil {
		key = current.pathKey
	}
	if key == "" {
		key = newPathKey()
		p.addStep("created a path key")
	}
	if next.pathKey == key {
		return next
	}
	keyed := *next
	keyed.pathKey = key
	return &keyed
}

func (p *rotationPlanner) newKeyring() (*keyring, error) {
	signer, err := newAuthority(p.now, p.lifetimes.Authority)
	if err != nil {
		return nil, err
	}
	serving, err := signer.sign(p.now, p.lifetimes.Certificate, p.names)
	return &keyring{serving: serving, signer: signer}, err
}

// promoteNextCA lets the next CA sign when it is propagated, or at once when the current
// one has expired.
func (p *rotationPlanner) promoteNextCA(k *keyring) (*keyring, error) {
	if k.nextCA == nil || !valid(k.nextCA.cert, p.now) || p.now.Before(p.promotionTime()) && valid(k.signer.cert, p.now) {
		return k, nil
	}
	serving, err := k.nextCA.sign(p.now, p.lifetimes.Certificate, p.names)
	p.addStep("the new CA signs the serving certificate")
	return &keyring{serving: serving, signer: *k.nextCA, retired: append(slices.Clone(k.retired), k.signer.cert)}, err
}

// promotionTime is when every API server has the bundle; far in the future if unknown.
func (p *rotationPlanner) promotionTime() time.Time {
	if p.propagatedSince.IsZero() {
		return p.now.Add(maxCheckInterval)
	}
	return p.propagatedSince.Add(p.lifetimes.PropagationDelay)
}

const maxCheckInterval = 24 * time.Hour

// replaceInvalidCA creates a new keyring if the CA is not valid.
func (p *rotationPlanner) replaceInvalidCA(k *keyring) (*keyring, error) {
	if valid(k.signer.cert, p.now) {
		return k, nil
	}
	p.addStep("created a CA and a serving certificate, because the CA is valid from " +
		k.signer.cert.NotBefore.Format(time.RFC3339) + " to " + k.signer.cert.NotAfter.Format(time.RFC3339))
	return p.newKeyring()
}

func (p *rotationPlanner) renewServing(k *keyring) (*keyring, error) {
	why := p.renewReason(k)
	if why == "" {
		return k, nil
	}
	serving, err := k.signer.sign(p.now, p.lifetimes.Certificate, p.names)
	if err != nil {
		return nil, err
	}
	p.addStep("created a serving certificate, because " + why)
	renewed := *k
	renewed.serving = serving
	return &renewed, nil
}

// renewReason is why the serving certificate must be renewed, or "".
func (p *rotationPlanner) renewReason(k *keyring) string {
	switch {
	case !coversNames(k.serving.cert, p.names):
		return "it must have the names " + strings.Join(p.names, ", ")
	case !valid(k.serving.cert, p.now):
		return "it is not valid"
	case renewable(k) && !p.now.Before(renewTime(k.serving.cert)):
		return "two thirds of its lifetime have passed"
	}
	return ""
}

// renewable reports whether a new serving certificate would be valid longer.
func renewable(k *keyring) bool { return k.serving.cert.NotAfter.Before(k.signer.cert.NotAfter) }

// dropExpired drops expired CAs.
func (p *rotationPlanner) dropExpired(k *keyring) (*keyring, error) {
	pruned := *k
	pruned.retired = nil
	for _, ca := range k.retired {
		if p.now.Before(ca.NotAfter) {
			pruned.retired = append(pruned.retired, ca)
		}
	}
	if k.nextCA != nil && !valid(k.nextCA.cert, p.now) {
		pruned.nextCA = nil
	}
	if len(pruned.authorities()) == len(k.authorities()) {
		return k, nil
	}
	p.addStep("removed an expired CA from the bundle")
	return &pruned, nil
}

// maxAuthorities limits the bundle when a new CA is forced.
const maxAuthorities = 8

func (p *rotationPlanner) addNextCA(k *keyring) (*keyring, error) {
	force := p.force && len(k.authorities()) < maxAuthorities
	if k.nextCA != nil || !force && p.now.Before(renewTime(k.signer.cert)) {
		return k, nil
	}
	nextCA, err := newAuthority(p.now, p.lifetimes.Authority)
	if err != nil {
		return nil, err
	}
	p.addStep("added a new CA to the bundle")
	withNextCA := *k
	withNextCA.nextCA = &nextCA
	return &withNextCA, nil
}

// nextCheck is when the next step is due.
func (p *rotationPlanner) nextCheck(k *keyring) time.Time {
	times := []time.Time{k.signer.cert.NotAfter, k.serving.cert.NotAfter, p.now.Add(maxCheckInterval)}
	if renewable(k) {
		times = append(times, renewTime(k.serving.cert))
	}
	if k.nextCA == nil {
		times = append(times, renewTime(k.signer.cert))
	} else {
		times = append(times, k.nextCA.cert.NotAfter, p.promotionTime())
	}
	for _, ca := range k.retired {
		times = append(times, ca.NotAfter)
	}
	times = slices.DeleteFunc(times, func(t time.Time) bool { return !t.After(p.now) })
	return slices.MinFunc(times, time.Time.Compare)
}
