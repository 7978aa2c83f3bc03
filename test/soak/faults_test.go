package soak

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// injectFaults lets everybody loose for a while.
func (s *soakRun) injectFaults(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	s.hook.setFaulty(true)
	defer s.hook.setFaulty(false)
	var busy sync.WaitGroup
	busy.Go(func() { s.newUser("second").work(ctx) })
	busy.Go(func() { s.newUser("third").work(ctx) })
	busy.Go(func() { s.newTamperer().work(ctx) })
	busy.Go(func() { s.newReleaser().work(ctx) })
	busy.Go(func() { s.newCamper().work(ctx) })
	busy.Go(func() { (&faultInjector{soakRun: s, rand: newRand(s.seed, "storm"), busy: &busy}).run(ctx) })
	busy.Wait()
	s.restoreCamps()
	s.restartGarbageCollector()
}

// restartGarbageCollector starts the garbage collector anew. One that has met a dead API
// server waits for up to a quarter of an hour before it tries an object again,
// and those of its name wait with it.
func (s *soakRun) restartGarbageCollector() {
	if err := s.plane.kill("kube-controller-manager"); err != nil {
		s.t.Logf("the garbage collector goes on as it is: %v", err)
	}
}

// faultInjector kills processes, and lets others sleep.
type faultInjector struct {
	*soakRun
	rand *rand.Rand
	busy *sync.WaitGroup
}

// fault is one of its doings.
type fault struct {
	name string
	do   func(context.Context) error
}

func (s *faultInjector) faults() []fault {
	return []fault{
		{"API server killed", func(context.Context) error { return s.plane.kill("kube-apiserver") }},
		{"etcd killed", func(context.Context) error { return s.plane.kill("etcd") }},
		{"leader killed", func(ctx context.Context) error { s.leader(ctx, true).terminate((*process).kill); return nil }},
		{"leader stopped", func(ctx context.Context) error { s.leader(ctx, true).terminate((*process).stop); return nil }},
		{"standby killed", func(ctx context.Context) error { s.leader(ctx, false).terminate((*process).kill); return nil }},
		{"leader frozen", func(ctx context.Context) error {
			frozen := s.leader(ctx, true)
			s.busy.Go(func() { frozen.freeze(ctx, s.between(11*time.Second, 16*time.Second)) })
			return nil
		}},
		{"a child kind of tents removed", func(ctx context.Context) error { return s.withoutKind(ctx, "pegs") }},
		{"a related kind of tents removed", func(ctx context.Context) error { return s.withoutKind(ctx, "forecasts") }},
		{"hook down", func(ctx context.Context) error { return s.hook.downFor(ctx, s.between(time.Second, 5*time.Second)) }},
	}
}

// run strikes every blow once, in an order of chance, and then again.
func (s *faultInjector) run(ctx context.Context) {
	for {
		blows := s.faults()
		s.rand.Shuffle(len(blows), func(i, j int) { blows[i], blows[j] = blows[j], blows[i] })
		for _, b := range blows {
			if pause(ctx, s.between(time.Second, 5*time.Second)) != nil {
				return
			}
			s.tally.add(b.name)
			if err := b.do(ctx); err != nil {
				s.tally.add(b.name + ", or would have been: " + err.Error())
			}
		}
	}
}

func (s *faultInjector) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rand.Int64N(int64(most-least)))
}

// leader is the replica that leads, or one that does not; should none be, any.
func (s *faultInjector) leader(ctx context.Context, leads bool) *replica {
	for _, r := range s.replicas {
		if r.isLeader(ctx) == leads {
			return r
		}
	}
	return s.replicas[s.rand.IntN(len(s.replicas))]
}
