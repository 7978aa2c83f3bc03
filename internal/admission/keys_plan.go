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
	// Settled is how long every configuration must have carried a new CA before
	// anything is signed by it, for all API servers to know: 5 minutes if zero.
	Settled time.Duration
}

func (l Lifetimes) withDefaults() Lifetimes {
	const day = 24 * time.Hour
	l.Certificate = cmp.Or(l.Certificate, 90*day)
	l.Authority = cmp.Or(l.Authority, 2*365*day)
	l.Settled = cmp.Or(l.Settled, 5*time.Minute)
	return l
}

// situation is what a plan depends on beside what is kept.
type situation struct {
	now time.Time
	// names are what the serving certificate must be for.
	names []string
	// carried is since when every configuration has carried the bundle that is kept;
	// zero while not every one does.
	carried time.Time
	// hurry has a new CA follow although it is not due.
	hurry bool
}

// step is what to keep next.
type step struct {
	// next is what was kept, the very pointer, if there is nothing to do.
	next *keyring
	// why says what was done, for a log.
	why string
	// again is when to look again, after now.
	again time.Time
}

// plan says what to keep, given what is kept, which may be nothing. It depends on
// nothing but its arguments, except that it draws keys.
//
// Whatever of it is known where: a serving certificate that it gave at some time
// and that has not expired is vouched for by every bundle it gave later, and by
// those before that configurations may still carry.
func plan(kept *keyring, at situation, l Lifetimes) (step, error) {
	p := planning{situation: at, lifetimes: l}
	next, err := p.advance(kept)
	if err != nil {
		return step{}, err
	}
	next = p.keyed(kept, next)
	return step{next: next, why: strings.Join(p.done, "; "), again: p.again(next)}, nil
}

// planning is a plan in the making.
type planning struct {
	situation

	lifetimes Lifetimes
	done      []string
}

func (p *planning) did(what string) { p.done = append(p.done, what) }

// advance takes every step that is due. A CA that joins the bundle now cannot be in
// every configuration yet, so it joins last.
func (p *planning) advance(kept *keyring) (*keyring, error) {
	if kept == nil {
		p.did("made a CA and a serving certificate")
		return p.fresh()
	}
	next := kept
	for _, advance := range []func(*keyring) (*keyring, error){p.succeed, p.replace, p.renew, p.forget, p.follow} {
		var err error
		if next, err = advance(next); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// keyed has the key of the paths stay the same. There is one from the beginning.
func (p *planning) keyed(kept, next *keyring) *keyring {
	var key PathKey
	if kept != nil {
		key = kept.pathKey
	}
	if key == "" {
		key = newPathKey()
		p.did("made a key for the paths of reviews")
	}
	if next.pathKey == key {
		return next
	}
	keyed := *next
	keyed.pathKey = key
	return &keyed
}

func (p *planning) fresh() (*keyring, error) {
	signer, err := newAuthority(p.now, p.lifetimes.Authority)
	if err != nil {
		return nil, err
	}
	serving, err := signer.sign(p.now, p.lifetimes.Certificate, p.names)
	return &keyring{serving: serving, signer: signer}, err
}

// succeed has the heir sign once everybody trusts it; or at once when nobody trusts
// its predecessor any more.
func (p *planning) succeed(k *keyring) (*keyring, error) {
	if k.heir == nil || !valid(k.heir.cert, p.now) || p.now.Before(p.succession()) && valid(k.signer.cert, p.now) {
		return k, nil
	}
	serving, err := k.heir.sign(p.now, p.lifetimes.Certificate, p.names)
	p.did("the new CA signs the serving certificate")
	return &keyring{serving: serving, signer: *k.heir, past: append(slices.Clone(k.past), k.signer.cert)}, err
}

// succession is when every API server knows the bundle; far away if that cannot be
// said.
func (p *planning) succession() time.Time {
	if p.carried.IsZero() {
		return p.now.Add(distant)
	}
	return p.carried.Add(p.lifetimes.Settled)
}

// distant is when it is time to look without a reason.
const distant = 24 * time.Hour

// replace starts anew if the CA that signs is worth nothing.
func (p *planning) replace(k *keyring) (*keyring, error) {
	if valid(k.signer.cert, p.now) {
		return k, nil
	}
	p.did("made a CA and a serving certificate, because the CA is valid from " +
		k.signer.cert.NotBefore.Format(time.RFC3339) + " to " + k.signer.cert.NotAfter.Format(time.RFC3339))
	return p.fresh()
}

// renew signs a new serving certificate when that has a point.
func (p *planning) renew(k *keyring) (*keyring, error) {
	why := p.staleness(k)
	if why == "" {
		return k, nil
	}
	serving, err := k.signer.sign(p.now, p.lifetimes.Certificate, p.names)
	if err != nil {
		return nil, err
	}
	p.did("made a serving certificate, because " + why)
	renewed := *k
	renewed.serving = serving
	return &renewed, nil
}

// staleness is why the serving certificate must be made anew; "" if it need not.
func (p *planning) staleness(k *keyring) string {
	switch {
	case !isFor(k.serving.cert, p.names):
		return "it is to be for " + strings.Join(p.names, ", ")
	case !valid(k.serving.cert, p.now):
		return "it is not valid"
	case renewable(k) && !p.now.Before(due(k.serving.cert)):
		return "two thirds of its life are over"
	}
	return ""
}

// renewable says that a new serving certificate would last longer.
func renewable(k *keyring) bool { return k.serving.cert.NotAfter.Before(k.signer.cert.NotAfter) }

// forget leaves CAs out of the bundle that have expired, and with them all that
// they have signed.
func (p *planning) forget(k *keyring) (*keyring, error) {
	forgotten := *k
	forgotten.past = nil
	for _, ca := range k.past {
		if p.now.Before(ca.NotAfter) {
			forgotten.past = append(forgotten.past, ca)
		}
	}
	if k.heir != nil && !valid(k.heir.cert, p.now) {
		forgotten.heir = nil
	}
	if len(forgotten.authorities()) == len(k.authorities()) {
		return k, nil
	}
	p.did("a CA that has expired leaves the bundle")
	return &forgotten, nil
}

// most is how many CAs a bundle may have for one more to join it in a hurry.
const most = 8

// follow has a new CA join the bundle when that is due.
func (p *planning) follow(k *keyring) (*keyring, error) {
	hurry := p.hurry && len(k.authorities()) < most
	if k.heir != nil || !hurry && p.now.Before(due(k.signer.cert)) {
		return k, nil
	}
	heir, err := newAuthority(p.now, p.lifetimes.Authority)
	if err != nil {
		return nil, err
	}
	p.did("a new CA joins the bundle")
	followed := *k
	followed.heir = &heir
	return &followed, nil
}

// again is when the next step is due.
func (p *planning) again(k *keyring) time.Time {
	times := []time.Time{k.signer.cert.NotAfter, k.serving.cert.NotAfter, p.now.Add(distant)}
	if renewable(k) {
		times = append(times, due(k.serving.cert))
	}
	if k.heir == nil {
		times = append(times, due(k.signer.cert))
	} else {
		times = append(times, k.heir.cert.NotAfter, p.succession())
	}
	for _, ca := range k.past {
		times = append(times, ca.NotAfter)
	}
	times = slices.DeleteFunc(times, func(t time.Time) bool { return !t.After(p.now) })
	return slices.MinFunc(times, time.Time.Compare)
}
