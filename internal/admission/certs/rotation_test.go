package certs

// Plans are made of what no user of the package sees, so these tests look inside.

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"github.com/setpoint-dev/setpoint/internal/must"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

var (
	start    = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	servedAs = []string{"setpoint.ops.svc", "127.0.0.1", "::1"}
	lives    = Lifetimes{Certificate: 90 * day, Authority: 720 * day, PropagationDelay: time.Hour}
)

// rotationTest is a keyring on its way through time.
type rotationTest struct {
	t        *testing.T
	keyring  *keyring
	rotation rotation
}

func (w *rotationTest) plan(at rotationInput) *keyring {
	w.t.Helper()
	if at.names == nil {
		at.names = servedAs
	}
	made := must.Get(planRotation(w.keyring, at, lives)).In(w.t)
	if !made.nextCheck.After(at.now) {
		w.t.Fatalf("at %s it is to be looked again at %s", at.now, made.nextCheck)
	}
	if (made.keyring == w.keyring) != (made.reason == "") {
		w.t.Fatalf("why is %q", made.reason)
	}
	w.rotation, w.keyring = made, made.keyring
	return w.keyring
}

// trusts says whether who trusts the bundle takes the serving certificate.
func trusts(bundle []*x509.Certificate, serving *x509.Certificate, at time.Time) error {
	roots := x509.NewCertPool()
	for _, ca := range bundle {
		roots.AddCert(ca)
	}
	for _, name := range servedAs {
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		if _, err := serving.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: at}); err != nil {
			return err
		}
	}
	return nil
}

// A whole life: what is done, and when it is looked for.
func TestPlanRotation(t *testing.T) {
	w := &rotationTest{t: t}
	first := w.plan(rotationInput{now: start})
	must.Succeed(t, trusts(first.authorities(), first.serving.cert, start.Add(-50*time.Minute))) // A client may have a late clock.
	if w.rotation.nextCheck != start.Add(time.Hour) {
		t.Errorf("again at %s", w.rotation.nextCheck)
	}

	cases := []struct {
		name string
		rotationInput
		why   string
		again time.Duration
	}{
		{"nothing is due", rotationInput{now: start.Add(60*day - time.Minute)}, "", time.Minute},
		{"the certificate is", rotationInput{now: start.Add(60 * day)}, "two thirds of its life", time.Hour},
		{"other names", rotationInput{now: start.Add(61 * day), names: []string{"a.b.svc"}}, "it must have the names a.b.svc", time.Hour},
		{"and back", rotationInput{now: start.Add(61 * day)}, "it must have the names setpoint.ops.svc", time.Hour},
		{"the CA is due", rotationInput{now: start.Add(480 * day), propagatedSince: start}, "created a serving certificate, because it is not valid; added a new CA to the bundle", time.Hour},
		{"no observation", rotationInput{now: start.Add(481 * day)}, "", time.Hour},
		{"all know it, not long enough", rotationInput{now: start.Add(482 * day), propagatedSince: start.Add(482*day - 59*time.Minute)}, "", time.Minute},
		{"all know it", rotationInput{now: start.Add(482 * day), propagatedSince: start.Add(482*day - time.Hour)}, "the new CA signs", time.Hour},
		{"the old one has expired", rotationInput{now: start.Add(720 * day)}, "because it is not valid; removed an expired CA", time.Hour},
	}
	for _, c := range cases {
		before := w.keyring
		w.plan(c.rotationInput)
		if c.why == "" && w.keyring != before || !strings.Contains(w.rotation.reason, c.why) {
			t.Errorf("%s: did %q", c.name, w.rotation.reason)
		}
		if got := w.rotation.nextCheck.Sub(c.now); got != c.again && c.name != "the CA is due" {
			t.Errorf("%s: again in %s, not %s", c.name, got, c.again)
		}
	}
	if n := len(w.keyring.authorities()); n != 1 {
		t.Errorf("%d CAs are trusted at the end", n)
	}
}

func TestPlanWithInvalidCertificates(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Time
		why  string
		heir bool
	}{
		"the CA has expired":               {at: start.Add(721 * day), why: "created a CA and a serving certificate, because the CA is valid from"},
		"the CA is not valid yet":          {at: start.Add(-2 * day), why: "created a CA and a serving certificate, because the CA is valid from"},
		"the CA has expired, and waits on": {at: start.Add(721 * day), heir: true, why: "the new CA signs the serving certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &rotationTest{t: t}
			w.plan(rotationInput{now: start})
			if c.heir {
				w.plan(rotationInput{now: start.Add(500 * day)})
			}
			w.plan(rotationInput{now: c.at})
			if !strings.HasPrefix(w.rotation.reason, c.why) {
				t.Errorf("did %q", w.rotation.reason)
			}
			must.Succeed(t, trusts(w.keyring.authorities(), w.keyring.serving.cert, c.at))
		})
	}
}

// A hurry has a CA follow, and many of them do not fill the Secret.
func TestPlanForcedRotation(t *testing.T) {
	w := &rotationTest{t: t}
	w.plan(rotationInput{now: start})
	at := start
	for range 3 * maxAuthorities {
		at = at.Add(2 * time.Hour)
		w.plan(rotationInput{now: at, force: true})
		w.plan(rotationInput{now: at, force: true, propagatedSince: at.Add(-2 * time.Hour)})
	}
	if n := len(w.keyring.authorities()); n != maxAuthorities {
		t.Errorf("%d CAs are trusted", n)
	}
}

// TestPlanNeverBreaksTrust: whatever a replica and a configuration have missed,
// and however late, the one trusts what the other shows.
func TestPlanNeverBreaksTrust(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			w := &rotationTest{t: t}
			w.plan(rotationInput{now: start})
			// A replica holds some serving certificate that was kept, a configuration some
			// bundle; neither ever goes back.
			replicas := []*keyring{w.keyring, w.keyring, w.keyring}
			configurations := []*keyring{w.keyring, w.keyring, w.keyring}
			var carried time.Time
			type pairing struct{ replica, configuration *keyring }
			tried := map[pairing]bool{}
			for at := start; at.Before(start.Add(4000 * day)); {
				// Who writes them does so well before a CA expires.
				pause := time.Duration(random.Int64N(int64(20 * day)))
				if random.IntN(3) == 0 {
					pause = time.Duration(random.Int64N(int64(time.Hour)))
				}
				at = at.Add(pause)
				before := w.keyring
				w.plan(rotationInput{now: at, propagatedSince: carried, force: random.IntN(50) == 0})
				if !sameBundle(before, w.keyring) {
					carried = time.Time{}
				}
				for i := range replicas {
					if random.IntN(3) == 0 || !valid(replicas[i].serving.cert, at) {
						replicas[i] = w.keyring
					}
					if random.IntN(3) == 0 {
						configurations[i] = w.keyring
					}
				}
				all := !slices.ContainsFunc(configurations, func(k *keyring) bool { return !sameBundle(k, w.keyring) })
				if all && carried.IsZero() {
					carried = at
				}
				if random.IntN(20) == 0 {
					carried = time.Time{} // Another one leads, and finds out anew.
				}
				for _, r := range replicas {
					for _, c := range configurations {
						if tried[pairing{r, c}] {
							continue // What is not valid any more has been let go of.
						}
						tried[pairing{r, c}] = true
						if err := trusts(c.authorities(), r.serving.cert, at); err != nil {
							t.Fatalf("after %s: %v", at.Sub(start), err)
						}
					}
				}
				if n := len(w.keyring.authorities()); n > maxAuthorities {
					t.Fatalf("%d CAs are trusted", n)
				}
			}
		})
	}
}

func sameBundle(a, b *keyring) bool {
	return slices.EqualFunc(a.authorities(), b.authorities(), func(x, y *x509.Certificate) bool { return bytes.Equal(x.Raw, y.Raw) })
}

// What was packed is unpacked at every stage.
func TestEncodeKeyring(t *testing.T) {
	w := &rotationTest{t: t}
	stages := []rotationInput{
		{now: start},
		{now: start.Add(500 * day)},
		{now: start.Add(501 * day), propagatedSince: start.Add(500 * day)},
	}
	for i, at := range stages {
		current := w.plan(at)
		c := must.Get(current.encode()).In(t)
		back := must.Get(c.decode()).In(t)
		again, err := back.encode()
		if err != nil || !again.equal(c) {
			t.Errorf("stage %d: changed on the way (%v)", i, err)
		}
		if (back.nextCA == nil) != (current.nextCA == nil) || len(back.retired) != len(current.retired) {
			t.Errorf("stage %d: heir or past are lost", i)
		}
	}
}

func TestDecodeInvalidData(t *testing.T) {
	w, other := &rotationTest{t: t}, &rotationTest{t: t}
	w.plan(rotationInput{now: start})
	w.plan(rotationInput{now: start.Add(500 * day)})
	foreign := must.Get(other.plan(rotationInput{now: start}).encode()).In(t)
	for name, c := range map[string]struct {
		spoil func(secretData)
		want  string
	}{
		"empty":                 {func(c secretData) { clear(c) }, "ca.crt: data does not contain"},
		"no certificate":        {func(c secretData) { delete(c, "tls.crt") }, "tls.crt: tls: failed to find"},
		"another's key":         {func(c secretData) { c["tls.key"] = foreign["tls.key"] }, "tls.crt: tls: private key does not match"},
		"another's certificate": {func(c secretData) { c["tls.crt"], c["tls.key"] = foreign["tls.crt"], foreign["tls.key"] }, "not signed by the CA of ca.key"},
		"another's bundle":      {func(c secretData) { c["ca.crt"] = foreign["ca.crt"] }, "ca.key: ca.crt has no CA with this key"},
		"no key of the CA":      {func(c secretData) { delete(c, "ca.key") }, "ca.key: data does not contain"},
		"another heir":          {func(c secretData) { c["next-ca.key"] = foreign["ca.key"] }, "next-ca.key: ca.crt has no CA"},
		"nonsense in the bundle": {func(c secretData) {
			c["ca.crt"] = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		}, "ca.crt: "},
	} {
		t.Run(name, func(t *testing.T) {
			packed := must.Get(w.keyring.encode()).In(t)
			c.spoil(packed)
			if _, err := packed.decode(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
