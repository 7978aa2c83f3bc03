package certs

import (
	"cmp"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/lists"
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
	// A new CA is added last, because no configuration has it yet.
	steps := []func() error{p.promoteNextCA, p.replaceInvalidCA, p.renewServing, p.dropExpired, p.addNextCA}
	if current == nil {
		steps = []func() error{func() error { return p.replaceAll("created a CA and a serving certificate") }}
	} else {
		p.keyring = *current
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return rotation{}, err
		}
	}
	if p.pathKey == "" {
		p.pathKey = admission.NewPathKey()
		p.addStep("created a path key")
	}
	next := current
	if len(p.steps) > 0 {
		next = &p.keyring
	}
	return rotation{keyring: next, reason: strings.Join(p.steps, "; "), nextCheck: p.nextCheck()}, nil
}

// rotationPlanner makes the steps that are due on its own copy of the keyring.
type rotationPlanner struct {
	rotationInput
	keyring

	lifetimes Lifetimes
	steps     []string
}

func (p *rotationPlanner) addStep(what string) { p.steps = append(p.steps, what) }

// replaceAll creates a CA and a serving certificate.
func (p *rotationPlanner) replaceAll(why string) error {
	signer, err := newAuthority(p.now, p.lifetimes.Authority)
	if err != nil {
		return err
	}
	p.keyring = keyring{signer: signer, pathKey: p.pathKey}
	return p.signServing(why)
}

func (p *rotationPlanner) signServing(why string) (err error) {
	p.addStep(why)
	p.serving, err = p.signer.sign(p.now, p.lifetimes.Certificate, p.names)
	return err
}

// promoteNextCA lets the next CA sign when it is propagated, or at once when the current
// one has expired.
func (p *rotationPlanner) promoteNextCA() error {
	if p.nextCA == nil || !valid(p.nextCA.cert, p.now) || p.now.Before(p.promotionTime()) && valid(p.signer.cert, p.now) {
		return nil
	}
	p.retired = append(slices.Clone(p.retired), p.signer.cert)
	p.signer, p.nextCA = *p.nextCA, nil
	return p.signServing("the new CA signs the serving certificate")
}

// promotionTime is when every API server has the bundle; far in the future if unknown.
func (p *rotationPlanner) promotionTime() time.Time {
	if p.propagatedSince.IsZero() {
		return p.now.Add(maxCheckInterval)
	}
	return p.propagatedSince.Add(p.lifetimes.PropagationDelay)
}

// maxCheckInterval is how often certificates are checked at least: a timer does not notice when the clock is set.
const maxCheckInterval = time.Hour

func (p *rotationPlanner) replaceInvalidCA() error {
	if valid(p.signer.cert, p.now) {
		return nil
	}
	return p.replaceAll("created a CA and a serving certificate, because the CA is valid from " +
		p.signer.cert.NotBefore.Format(time.RFC3339) + " to " + p.signer.cert.NotAfter.Format(time.RFC3339))
}

func (p *rotationPlanner) renewServing() error {
	why := p.renewReason()
	if why == "" {
		return nil
	}
	return p.signServing("created a serving certificate, because " + why)
}

// renewReason is why the serving certificate must be renewed, or "".
func (p *rotationPlanner) renewReason() string {
	switch {
	case !coversNames(p.serving.cert, p.names):
		return "it must have the names " + strings.Join(p.names, ", ")
	case !valid(p.serving.cert, p.now):
		return "it is not valid"
	case p.renewable() && !p.now.Before(renewTime(p.serving.cert)):
		return "two thirds of its lifetime have passed"
	}
	return ""
}

// renewable reports whether a new serving certificate would be valid longer.
func (p *rotationPlanner) renewable() bool {
	return p.serving.cert.NotAfter.Before(p.signer.cert.NotAfter)
}

func (p *rotationPlanner) dropExpired() error {
	before := len(p.authorities())
	p.retired = slices.DeleteFunc(slices.Clone(p.retired), func(ca *x509.Certificate) bool { return !p.now.Before(ca.NotAfter) })
	if p.nextCA != nil && !valid(p.nextCA.cert, p.now) {
		p.nextCA = nil
	}
	if len(p.authorities()) < before {
		p.addStep("removed an expired CA from the bundle")
	}
	return nil
}

// maxAuthorities limits the bundle when a new CA is forced.
const maxAuthorities = 8

func (p *rotationPlanner) addNextCA() error {
	force := p.force && len(p.authorities()) < maxAuthorities
	if p.nextCA != nil || !force && p.now.Before(renewTime(p.signer.cert)) {
		return nil
	}
	nextCA, err := newAuthority(p.now, p.lifetimes.Authority)
	p.nextCA = &nextCA
	p.addStep("added a new CA to the bundle")
	return err
}

// nextCheck is when the next step is due.
func (p *rotationPlanner) nextCheck() time.Time {
	times := []time.Time{p.signer.cert.NotAfter, p.serving.cert.NotAfter, p.now.Add(maxCheckInterval)}
	if p.renewable() {
		times = append(times, renewTime(p.serving.cert))
	}
	if p.nextCA == nil {
		times = append(times, renewTime(p.signer.cert))
	} else {
		times = append(times, p.nextCA.cert.NotAfter, p.promotionTime())
	}
	times = append(times, lists.Map(p.retired, func(ca *x509.Certificate) time.Time { return ca.NotAfter })...)
	times = slices.DeleteFunc(times, func(t time.Time) bool { return !t.After(p.now) })
	return slices.MinFunc(times, time.Time.Compare)
}
