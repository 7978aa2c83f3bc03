// Package soak runs Setpoint under random faults, as several processes on a
// control plane of its own, and looks whether it ends in the right state.
//
// What lives here: the faults, those who use and spoil the cluster meanwhile,
// the hook, and the check of what came of it. What must not: knowledge of how
// Setpoint does it. Who calls: make soak, for ten minutes or as long as one
// likes, and make test-all, for half a minute. README.md says more.
package soak

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/test/loadbalancer"
)

var (
	faultDuration   = flag.Duration("for", 30*time.Second, "how long there are faults")
	seed            = flag.Uint64("seed", 0, "what they are drawn from; 0 draws that too")
	convergeTimeout = flag.Duration("within", 2*time.Minute, "how long converging may take when they are over")
	replicaCount    = flag.Int("replicas", 2, "how many Setpoints there are, of which one leads")
	reportFile      = flag.String("report", "", "`file` that the report is added to, as Markdown")
)

// TestSoak has everybody at it at once, lets the faults end, and wants all to be
// as the parents say: within a bound, and so that it stays.
func TestSoak(t *testing.T) {
	binary := findBinary(t)
	drawn := cmp.Or(*seed, uint64(time.Now().UnixNano())%1_000_000)
	t.Logf("seed %d, faults for %s", drawn, *faultDuration)
	s := newSoakRun(t, binary, drawn)
	s.setUp()
	s.converge("before the faults")

	s.injectFaults(*faultDuration)

	took := s.converge("after the faults")
	s.awaitNoWrites()
	s.checkPanics()
	text := s.report(took)
	t.Log("\n" + text)
	if *reportFile != "" {
		appendTo(t, *reportFile, text)
	}
}

// findBinary finds the binary with the control plane; SETPOINT may name another
// than the one that make builds.
func findBinary(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath(cmp.Or(os.Getenv("SETPOINT"), filepath.Join("..", "..", "bin", "setpoint")))
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		t.Fatalf("%v; build it with make build, or name another in SETPOINT", err)
	}
	return path
}

// soakRun is one run: who takes part, and what is known of it.
type soakRun struct {
	t        *testing.T
	seed     uint64
	dir      string
	plane    *controlPlane
	cluster  *cluster
	hook     *hook
	replicas []*replica
	ledger   *expectations
	rollouts *rollouts
	tally    *counters
}

func newSoakRun(t *testing.T, binary string, seed uint64) *soakRun {
	dir := t.TempDir()
	count := &counters{counts: map[string]int{}}
	plane := bootControlPlane(t, binary, dir)
	known, rolledOut := &expectations{parents: map[string]bool{}, notes: map[string]string{}, unowned: map[string]bool{}, rung: map[string]bool{}, dismissed: map[string]bool{}}, newRollouts()
	s := &soakRun{
		t: t, seed: seed, dir: dir, tally: count, plane: plane,
		cluster: connect(t, plane.kubeconfig, count),
		hook:    newHook(t, newRand(seed, "hook"), count, known, rolledOut),
		ledger:  known, rollouts: rolledOut,
	}
	reviews := loadbalancer.New(t)
	var addresses []string
	for i := range *replicaCount {
		r := newReplica(t, binary, plane.kubeconfig, i, count)
		r.service = strconv.Itoa(reviews.Port())
		s.replicas, addresses = append(s.replicas, r), append(addresses, r.reviews)
	}
	reviews.SetBackends(addresses...)
	return s
}

// newRand are random numbers for one of those who take part, so that one's haste
// does not change another's luck.
func newRand(seed uint64, who string) *rand.Rand {
	for _, letter := range who {
		seed = seed*31 + uint64(letter)
	}
	return rand.New(rand.NewPCG(seed, 1))
}

// setUp puts up all there is before the faults.
func (s *soakRun) setUp() {
	s.t.Helper()
	for _, r := range s.replicas {
		r.start()
	}
	s.cluster.install(s.t, s.hook.url())
	s.cluster.plantCanaries(s.t)
	s.cluster.awaitReviews(s.t)
	s.restoreCamps()
	s.newReleaser().awaitFirst()
	user := s.newUser("first")
	for range firstParents {
		user.create(s.t.Context())
	}
	for range barnCount {
		user.make(s.t.Context(), user.pickOf(barn))
	}
}

// converge waits until everything is right, and tells how long that took.
func (s *soakRun) converge(when string) time.Duration {
	s.t.Helper()
	since := time.Now()
	for ctx := s.t.Context(); ; {
		wrong, unowned := s.check(ctx)
		if len(wrong) == 0 {
			return time.Since(since)
		}
		s.deleteUnowned(ctx, unowned)
		if pause(ctx, 250*time.Millisecond) != nil || time.Since(since) > *convergeTimeout {
			s.t.Fatalf("%s (seed %d): not right within %s:\n%s\n%s", when, s.seed, *convergeTimeout, firstOf(wrong), s.report(0))
		}
	}
}

// idleTime is how long nothing may happen any more at the end.
const idleTime = 3 * time.Second

// awaitNoWrites wants all writes to end when all is right. A write that failed may be due once more,
// after its backoff.
func (s *soakRun) awaitNoWrites() {
	s.t.Helper()
	var written []string
	for end := time.Now().Add(*convergeTimeout); time.Now().Before(end); {
		before := s.cluster.versions(s.t)
		_ = pause(s.t.Context(), idleTime)
		written = nil
		for name, version := range s.cluster.versions(s.t) {
			if before[name] != version {
				written = append(written, name)
			}
		}
		if len(written) == 0 {
			return
		}
	}
	s.t.Errorf("seed %d: still being written when all is right: %s", s.seed, strings.Join(written, ", "))
}

// pause waits, and says whether the time has passed.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file := must.Get(os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)).In(t)
	defer file.Close()
	if _, err := fmt.Fprintln(file, text); err != nil {
		t.Error(err)
	}
}
