package manager

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller/compose"
)

// digestInterval is how often it is looked, while somebody waits, whether a controller is
// doing as it did.
const digestInterval = time.Second

// Await implements inspect.Source.
func (s *source) Await(ctx context.Context, since uint64) (uint64, error) {
	ticker := time.NewTicker(digestInterval)
	defer ticker.Stop()
	for {
		revision, changed := s.manager.history.Revision()
		if revision != since {
			return revision, nil
		}
		select {
		case <-changed:
		case <-ticker.C:
			s.manager.lastDigest.update(s)
		case <-ctx.Done():
			return revision, ctx.Err()
		}
	}
}

// digestCache is how all controllers were doing when somebody last looked.
type digestCache struct {
	mu      sync.Mutex
	digest  uint64
	updated time.Time
}

// update looks, at most once in a while for all who wait, and has the Book change when
// what there is to see did.
func (l *digestCache) update(s *source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.updated) < digestInterval/2 {
		return
	}
	l.updated = time.Now()
	if digest := s.digest(); digest != l.digest {
		l.digest = digest
		s.manager.history.NotifyChange()
	}
}

// controllerDigest is what of one controller is worth a word when it changes.
type controllerDigest struct {
	name                                         string
	suspended                                    bool
	objects, owned, failing, paused, conflicting int
	held                                         compose.HeldDeletions
	version                                      uint64
}

// digest is that of how all controllers are doing, and of who leads.
func (s *source) digest() uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	maphash.WriteComparable(&h, s.manager.leadership.leads())
	for _, one := range s.manager.controllers.snapshots() {
		digest := controllerDigest{name: one.name, suspended: one.suspended}
		if one.stored != nil {
			digest.version = one.stored.Version()
		}
		var health compose.Health
		if one.running != nil {
			health = one.running.health()
		}
		digest.objects, digest.owned, digest.failing = health.Parents, health.Children, health.Failing
		digest.paused, digest.conflicting, digest.held = health.Paused, health.Conflicting, health.Held
		maphash.WriteComparable(&h, digest)
		condition := acceptedCondition(one.refusal, one.notes, health)
		maphash.WriteComparable(&h, condition)
		maphash.WriteComparable(&h, readyCondition(condition, &one.controllerState, health))
	}
	return h.Sum64()
}

// digestSeed makes digests differ from process to process.
var digestSeed = maphash.MakeSeed()
