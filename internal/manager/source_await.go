package manager

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller"
)

// digestInterval is how often the state of controllers is compared while a client waits.
const digestInterval = time.Second

// Await implements model.Source.
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

// digestCache is the digest of the state of all controllers.
type digestCache struct {
	mu      sync.Mutex
	digest  uint64
	updated time.Time
}

// update computes the digest, at most once per interval for all clients that wait, and marks
// the history as changed if it differs.
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

// controllerDigest is the part of a controller's state that clients are notified of.
type controllerDigest struct {
	name                                         string
	suspended                                    bool
	objects, owned, failing, paused, conflicting int
	held                                         controller.HeldDeletions
	version                                      uint64
}

// digest returns the digest of the state of all controllers and of leadership.
func (s *source) digest() uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	maphash.WriteComparable(&h, s.manager.leader.Leads())
	for _, one := range s.manager.controllers.snapshots() {
		digest := controllerDigest{name: one.name, suspended: one.suspended}
		if one.stored != nil {
			digest.version = one.stored.Version()
		}
		health, _ := one.health()
		digest.objects, digest.owned, digest.failing = health.Parents, health.Children, health.Failing
		digest.paused, digest.conflicting, digest.held = health.Paused, health.Conflicting, health.Held
		maphash.WriteComparable(&h, digest)
		condition := one.accepted(health)
		maphash.WriteComparable(&h, condition)
		maphash.WriteComparable(&h, readyCondition(condition, &one.controllerState, health))
	}
	return h.Sum64()
}

// digestSeed makes digests differ between processes.
var digestSeed = maphash.MakeSeed()
