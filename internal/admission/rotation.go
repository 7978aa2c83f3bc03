package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Lifetimes say how long certificates are valid. The zero value has the defaults.
type Lifetimes struct {
	// Certificate is how long a serving certificate is, 90 days if zero; it is
	// renewed at two thirds of it.
	Certificate time.Duration
	// Authority is how long a CA is, two years if zero; at two thirds of it another
	// one follows.
	Authority time.Duration
	// PropagationDelay is how long every configuration must have carried a new CA before
	// anything is signed by it, for all API servers to know: 5 minutes if zero.
	PropagationDelay time.Duration
}

func (l Lifetimes) withDefaults() Lifetimes {
	const day = 24 * time.Hour
	l.Certificate = cmp.Or(l.Certificate, 90*day)
	l.Authority = cmp.Or(l.Authority, 2*365*day)
	l.PropagationDelay = cmp.Or(l.PropagationDelay, 5*time.Minute)
	return l
}

// rotationInput is what a plan depends on beside what is kept.
type rotationInput struct {
	now time.Time
	// names are what the serving certificate must be for.
	names []string
	// propagatedSince is since when every configuration has carried the bundle that is kept;
	// zero while not every one does.
	propagatedSince time.Time
	// force has a new CA follow although it is not due.
	force bool
}

// rotation is what to keep next.
type rotation struct {
	// keyring is what was kept, the very pointer, if there is nothing to do.
	keyring *keyring
	// reason says what was done, for a log.
	reason string
	// nextCheck is when to look again, after now.
	nextCheck time.Time
}

// planRotation says what to keep, given what is kept, which may be nothing. It depends on
// nothing but its arguments, except that it draws keys.
//
// Whatever of it is known where: a serving certificate that it gave at some time
// and that has not expired is vouched for by every bundle it gave later, and by
// those before that configurations may still carry.
func planRotation(current *keyring, at rotationInput, l Lifetimes) (rotation, error) {
	p := rotationPlanner{rotationInput: at, lifetimes: l}
	next, err := p.advance(current)
	if err != nil {
		return rotation{}, err
	}
	next = p.withPathKey(current, next)
	return rotation{keyring: next, reason: strings.Join(p.steps, "; "), nextCheck: p.nextCheck(next)}, nil
}

// rotationPlanner is a plan in the making.
type rotationPlanner struct {
	rotationInput

	lifetimes Lifetimes
	steps     []string
}

func (p *rotationPlanner) addStep(what string) { p.steps = append(p.steps, what) }

// advance takes every step that is due. A CA that joins the bundle now cannot be in
// every configuration yet, so it joins last.
func (p *rotationPlanner) advance(current *keyring) (*keyring, error) {
	if current == nil {
		p.addStep("made a CA and a serving certificate")
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

// withPathKey has the key of the paths stay the same. There is one from the beginning.
func (p *rotationPlanner) withPathKey(current, next *keyring) *keyring {
	var key PathKey
	if current != nil {
		key = current.pathKey
	}
	if key == "" {
		key = newPathKey()
		p.addStep("made a key for the paths of reviews")
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

// promoteNextCA has the heir sign once everybody trusts it; or at once when nobody trusts
// its predecessor any more.
func (p *rotationPlanner) promoteNextCA(k *keyring) (*keyring, error) {
	if k.nextCA == nil || !valid(k.nextCA.cert, p.now) || p.now.Before(p.promotionTime()) && valid(k.signer.cert, p.now) {
		return k, nil
	}
	serving, err := k.nextCA.sign(p.now, p.lifetimes.Certificate, p.names)
	p.addStep("the new CA signs the serving certificate")
	return &keyring{serving: serving, signer: *k.nextCA, retired: append(slices.Clone(k.retired), k.signer.cert)}, err
}

// promotionTime is when every API server knows the bundle; far away if that cannot be
// said.
func (p *rotationPlanner) promotionTime() time.Time {
	if p.propagatedSince.IsZero() {
		return p.now.Add(maxCheckInterval)
	}
	return p.propagatedSince.Add(p.lifetimes.PropagationDelay)
}

// maxCheckInterval is when it is time to look without a reason.
const maxCheckInterval = 24 * time.Hour

// replaceInvalidCA starts anew if the CA that signs is worth nothing.
func (p *rotationPlanner) replaceInvalidCA(k *keyring) (*keyring, error) {
	if valid(k.signer.cert, p.now) {
		return k, nil
	}
	p.addStep("made a CA and a serving certificate, because the CA is valid from " +
		k.signer.cert.NotBefore.Format(time.RFC3339) + " to " + k.signer.cert.NotAfter.Format(time.RFC3339))
	return p.newKeyring()
}

// renewServing signs a new serving certificate when that has a point.
func (p *rotationPlanner) renewServing(k *keyring) (*keyring, error) {
	why := p.renewReason(k)
	if why == "" {
		return k, nil
	}
	serving, err := k.signer.sign(p.now, p.lifetimes.Certificate, p.names)
	if err != nil {
		return nil, err
	}
	p.addStep("made a serving certificate, because " + why)
	renewed := *k
	renewed.serving = serving
	return &renewed, nil
}

// renewReason is why the serving certificate must be made anew; "" if it need not.
func (p *rotationPlanner) renewReason(k *keyring) string {
	switch {
	case !coversNames(k.serving.cert, p.names):
		return "it is to be for " + strings.Join(p.names, ", ")
	case !valid(k.serving.cert, p.now):
		return "it is not valid"
	case renewable(k) && !p.now.Before(renewTime(k.serving.cert)):
		return "two thirds of its life are over"
	}
	return ""
}

// renewable says that a new serving certificate would last longer.
func renewable(k *keyring) bool { return k.serving.cert.NotAfter.Before(k.signer.cert.NotAfter) }

// dropExpired leaves CAs out of the bundle that have expired, and with them all that
// they have signed.
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
	p.addStep("a CA that has expired leaves the bundle")
	return &pruned, nil
}

// maxAuthorities is how many CAs a bundle may have for one more to join it in a hurry.
const maxAuthorities = 8

// addNextCA has a new CA join the bundle when that is due.
func (p *rotationPlanner) addNextCA(k *keyring) (*keyring, error) {
	force := p.force && len(k.authorities()) < maxAuthorities
	if k.nextCA != nil || !force && p.now.Before(renewTime(k.signer.cert)) {
		return k, nil
	}
	nextCA, err := newAuthority(p.now, p.lifetimes.Authority)
	if err != nil {
		return nil, err
	}
	p.addStep("a new CA joins the bundle")
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
