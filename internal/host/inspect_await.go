package host

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/engine"
)

// glanceEvery is how often it is looked, while somebody waits, whether a controller is
// doing as it did.
const glanceEvery = time.Second

// Await implements inspect.Source.
func (s *source) Await(ctx context.Context, since uint64) (uint64, error) {
	ticker := time.NewTicker(glanceEvery)
	defer ticker.Stop()
	for {
		revision, changed := s.host.book.Revision()
		if revision != since {
			return revision, nil
		}
		select {
		case <-changed:
		case <-ticker.C:
			s.host.look.at(s)
		case <-ctx.Done():
			return revision, ctx.Err()
		}
	}
}

// look is how all controllers were doing when somebody last looked.
type look struct {
	mu    sync.Mutex
	saw   uint64
	taken time.Time
}

// at looks, at most once in a while for all who wait, and has the Book change when
// what there is to see did.
func (l *look) at(s *source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.taken) < glanceEvery/2 {
		return
	}
	l.taken = time.Now()
	if sees := s.digest(); sees != l.saw {
		l.saw = sees
		s.host.book.Changed()
	}
}

// sight is what of one controller is worth a word when it changes.
type sight struct {
	name                                       string
	suspended                                  bool
	objects, owned, failing, paused, unsettled int
	held                                       engine.Held
	version                                    uint64
}

// digest is that of how all controllers are doing, and of who leads.
func (s *source) digest() uint64 {
	var h maphash.Hash
	h.SetSeed(lookSeed)
	maphash.WriteComparable(&h, s.host.office.leads())
	for _, one := range s.host.fleet.subjects() {
		seen := sight{name: one.name, suspended: one.suspended}
		if one.stored != nil {
			seen.version = one.stored.Version()
		}
		var health engine.Health
		if one.running != nil {
			health = one.running.health()
		}
		seen.objects, seen.owned, seen.failing = health.Parents, health.Children, health.InError
		seen.paused, seen.unsettled, seen.held = health.Paused, health.Unsettled, health.Held
		maphash.WriteComparable(&h, seen)
		verdict := accepted(one.refusal, one.notes, health)
		maphash.WriteComparable(&h, verdict)
		maphash.WriteComparable(&h, ready(verdict, &one.state, health))
	}
	return h.Sum64()
}

// lookSeed makes digests differ from process to process.
var lookSeed = maphash.MakeSeed()
