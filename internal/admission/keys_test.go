package admission

// Plans are made of what no user of the package sees, so these tests look inside.

import (
	"bytes"
	"crypto/x509"
	"fmt"
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
	lives    = Lifetimes{Certificate: 90 * day, Authority: 720 * day, Settled: time.Hour}
)

// walk is a keyring on its way through time.
type walk struct {
	t    *testing.T
	kept *keyring
	step step
}

func (w *walk) plan(at situation) *keyring {
	w.t.Helper()
	at.names = orServedAs(at.names)
	made, err := plan(w.kept, at, lives)
	if err != nil {
		w.t.Fatal(err)
	}
	if !made.again.After(at.now) {
		w.t.Fatalf("at %s it is to be looked again at %s", at.now, made.again)
	}
	if (made.next == w.kept) != (made.why == "") {
		w.t.Fatalf("why is %q", made.why)
	}
	w.step, w.kept = made, made.next
	return w.kept
}

func orServedAs(n []string) []string {
	if n == nil {
		return servedAs
	}
	return n
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
func TestPlan(t *testing.T) {
	w := &walk{t: t}
	first := w.plan(situation{now: start})
	if err := trusts(first.authorities(), first.serving.cert, start.Add(-50*time.Minute)); err != nil {
		t.Errorf("somebody whose clock is late does not trust it: %v", err)
	}
	if w.step.again != start.Add(day) {
		t.Errorf("again at %s", w.step.again)
	}

	cases := []struct {
		name string
		situation
		why   string
		again time.Duration
	}{
		{"nothing is due", situation{now: start.Add(59*day + 12*time.Hour)}, "", 12 * time.Hour},
		{"the certificate is", situation{now: start.Add(60 * day)}, "two thirds of its life", day},
		{"other names", situation{now: start.Add(61 * day), names: []string{"a.b.svc"}}, "it is to be for a.b.svc", day},
		{"and back", situation{now: start.Add(61 * day)}, "it is to be for setpoint.ops.svc", day},
		{"the CA is due", situation{now: start.Add(480 * day), carried: start}, "made a serving certificate, because it is not valid; a new CA joins the bundle", time.Hour},
		{"nobody has told of it", situation{now: start.Add(481 * day)}, "", day},
		{"all know it, not long enough", situation{now: start.Add(482 * day), carried: start.Add(482*day - 59*time.Minute)}, "", time.Minute},
		{"all know it", situation{now: start.Add(482 * day), carried: start.Add(482*day - time.Hour)}, "the new CA signs", day},
		{"the old one has expired", situation{now: start.Add(720 * day)}, "because it is not valid; a CA that has expired leaves", day},
	}
	for _, c := range cases {
		before := w.kept
		w.plan(c.situation)
		if c.why == "" && w.kept != before || !strings.Contains(w.step.why, c.why) {
			t.Errorf("%s: did %q", c.name, w.step.why)
		}
		if got := w.step.again.Sub(c.now); got != c.again && c.name != "the CA is due" {
			t.Errorf("%s: again in %s, not %s", c.name, got, c.again)
		}
	}
	if n := len(w.kept.authorities()); n != 1 {
		t.Errorf("%d CAs are trusted at the end", n)
	}
}

func TestPlanOfWhatIsWorthNothing(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Time
		why  string
		heir bool
	}{
		"the CA has expired":               {at: start.Add(721 * day), why: "made a CA and a serving certificate, because the CA is valid from"},
		"the CA is not valid yet":          {at: start.Add(-2 * day), why: "made a CA and a serving certificate, because the CA is valid from"},
		"the CA has expired, and waits on": {at: start.Add(721 * day), heir: true, why: "the new CA signs the serving certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &walk{t: t}
			w.plan(situation{now: start})
			if c.heir {
				w.plan(situation{now: start.Add(500 * day)})
			}
			w.plan(situation{now: c.at})
			if !strings.HasPrefix(w.step.why, c.why) {
				t.Errorf("did %q", w.step.why)
			}
			if err := trusts(w.kept.authorities(), w.kept.serving.cert, c.at); err != nil {
				t.Error(err)
			}
		})
	}
}

// A hurry has a CA follow, and many of them do not fill the Secret.
func TestPlanInAHurry(t *testing.T) {
	w := &walk{t: t}
	w.plan(situation{now: start})
	at := start
	for range 3 * most {
		at = at.Add(2 * time.Hour)
		w.plan(situation{now: at, hurry: true})
		w.plan(situation{now: at, hurry: true, carried: at.Add(-2 * time.Hour)})
	}
	if n := len(w.kept.authorities()); n != most {
		t.Errorf("%d CAs are trusted", n)
	}
}

// TestPlanNeverBreaksTrust: whatever a replica and a configuration have missed,
// and however late, the one trusts what the other shows.
func TestPlanNeverBreaksTrust(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			w := &walk{t: t}
			w.plan(situation{now: start})
			// A replica holds some serving certificate that was kept, a configuration some
			// bundle; neither ever goes back.
			replicas := []*keyring{w.kept, w.kept, w.kept}
			configurations := []*keyring{w.kept, w.kept, w.kept}
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
				before := w.kept
				w.plan(situation{now: at, carried: carried, hurry: random.IntN(50) == 0})
				if !sameBundle(before, w.kept) {
					carried = time.Time{}
				}
				for i := range replicas {
					if random.IntN(3) == 0 || !valid(replicas[i].serving.cert, at) {
						replicas[i] = w.kept
					}
					if random.IntN(3) == 0 {
						configurations[i] = w.kept
					}
				}
				all := !slices.ContainsFunc(configurations, func(k *keyring) bool { return !sameBundle(k, w.kept) })
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
				if n := len(w.kept.authorities()); n > most {
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
func TestPack(t *testing.T) {
	w := &walk{t: t}
	stages := []situation{
		{now: start},
		{now: start.Add(500 * day)},
		{now: start.Add(501 * day), carried: start.Add(500 * day)},
	}
	for i, at := range stages {
		kept := w.plan(at)
		c, err := kept.pack()
		if err != nil {
			t.Fatal(err)
		}
		back, err := c.unpack()
		if err != nil {
			t.Fatalf("stage %d: %v", i, err)
		}
		again, err := back.pack()
		if err != nil || !again.equal(c) {
			t.Errorf("stage %d: changed on the way (%v)", i, err)
		}
		if (back.heir == nil) != (kept.heir == nil) || len(back.past) != len(kept.past) {
			t.Errorf("stage %d: heir or past are lost", i)
		}
	}
}

func TestUnpackWhatIsSpoiled(t *testing.T) {
	w, other := &walk{t: t}, &walk{t: t}
	w.plan(situation{now: start})
	w.plan(situation{now: start.Add(500 * day)})
	foreign, err := other.plan(situation{now: start}).pack()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(contents)
		want  string
	}{
		"empty":                 {func(c contents) { clear(c) }, "ca.crt: data does not contain"},
		"no certificate":        {func(c contents) { delete(c, "tls.crt") }, "tls.crt: tls: failed to find"},
		"another's key":         {func(c contents) { c["tls.key"] = foreign["tls.key"] }, "tls.crt: tls: private key does not match"},
		"another's certificate": {func(c contents) { c["tls.crt"], c["tls.key"] = foreign["tls.crt"], foreign["tls.key"] }, "is not signed by the CA of ca.key"},
		"another's bundle":      {func(c contents) { c["ca.crt"] = foreign["ca.crt"] }, "ca.key: ca.crt has no CA of that key"},
		"no key of the CA":      {func(c contents) { delete(c, "ca.key") }, "ca.key: data does not contain"},
		"another heir":          {func(c contents) { c["next-ca.key"] = foreign["ca.key"] }, "next-ca.key: ca.crt has no CA"},
		"nonsense in the bundle": {func(c contents) {
			c["ca.crt"] = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		}, "ca.crt: "},
	} {
		t.Run(name, func(t *testing.T) {
			packed, err := w.kept.pack()
			if err != nil {
				t.Fatal(err)
			}
			c.spoil(packed)
			if _, err := packed.unpack(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
