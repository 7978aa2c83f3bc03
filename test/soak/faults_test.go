package soak

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// trouble lets everybody loose for a while.
func (s *story) trouble(d time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	s.hook.weather(true)
	defer s.hook.weather(false)
	var busy sync.WaitGroup
	busy.Go(func() { s.newUser("second").work(ctx) })
	busy.Go(func() { s.newUser("third").work(ctx) })
	busy.Go(func() { s.newVandal().work(ctx) })
	busy.Go(func() { (&storm{story: s, dice: dice(s.seed, "storm"), busy: &busy}).rage(ctx) })
	busy.Wait()
	s.collectAnew()
}

// collectAnew starts the garbage collector anew. One that has met a dead API
// server waits for up to a quarter of an hour before it tries an object again,
// and those of its name wait with it.
func (s *story) collectAnew() {
	if err := s.plane.kill("kube-controller-manager"); err != nil {
		s.t.Logf("the garbage collector goes on as it is: %v", err)
	}
}

// storm kills processes, and lets others sleep.
type storm struct {
	*story
	dice *rand.Rand
	busy *sync.WaitGroup
}

// blow is one of its doings.
type blow struct {
	name string
	do   func(context.Context) error
}

func (s *storm) blows() []blow {
	return []blow{
		{"API server killed", func(context.Context) error { return s.plane.kill("kube-apiserver") }},
		{"etcd killed", func(context.Context) error { return s.plane.kill("etcd") }},
		{"leader killed", func(ctx context.Context) error { s.leader(ctx, true).end((*process).kill); return nil }},
		{"leader stopped", func(ctx context.Context) error { s.leader(ctx, true).end((*process).stop); return nil }},
		{"standby killed", func(ctx context.Context) error { s.leader(ctx, false).end((*process).kill); return nil }},
		{"leader frozen", func(ctx context.Context) error {
			asleep := s.leader(ctx, true)
			s.busy.Go(func() { asleep.freeze(ctx, s.between(11*time.Second, 16*time.Second)) })
			return nil
		}},
		{"hook down", func(ctx context.Context) error { return s.hook.away(ctx, s.between(time.Second, 5*time.Second)) }},
	}
}

// rage strikes every blow once, in an order of chance, and then again.
func (s *storm) rage(ctx context.Context) {
	for {
		blows := s.blows()
		s.dice.Shuffle(len(blows), func(i, j int) { blows[i], blows[j] = blows[j], blows[i] })
		for _, b := range blows {
			if pause(ctx, s.between(time.Second, 5*time.Second)) != nil {
				return
			}
			s.tally.note(b.name)
			if err := b.do(ctx); err != nil {
				s.tally.note(b.name + ", or would have been: " + err.Error())
			}
		}
	}
}

func (s *storm) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.dice.Int64N(int64(most-least)))
}

// leader is the replica that leads, or one that does not; should none be, any.
func (s *storm) leader(ctx context.Context, leads bool) *replica {
	for _, r := range s.replicas {
		if r.leads(ctx) == leads {
			return r
		}
	}
	return s.replicas[s.dice.IntN(len(s.replicas))]
}
