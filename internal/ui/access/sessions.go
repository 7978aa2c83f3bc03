package access

import (
	"reflect"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/asuser"
)

// sessions are those of all visitors, by the digest of what their cookies say. None is
// kept for much longer than it lasts, since it has a token.
type sessions struct {
	now      func() time.Time
	lifetime time.Duration
	// ended is told of each that goes.
	ended func(asuser.User)

	mu   sync.Mutex
	byID map[string]*session
	// sweeping says that a sweep is to come.
	sweeping bool
}

func newSessions(o *Options) *sessions {
	return &sessions{now: o.Now, lifetime: o.Lifetime, ended: o.Ended, byID: map[string]*session{}}
}

func (s *sessions) get(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

func (s *sessions) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(id)
}

// remove is drop for who holds the lock.
func (s *sessions) remove(id string) {
	if gone := s.byID[id]; gone != nil {
		delete(s.byID, id)
		s.ended(gone.user)
	}
}

// put keeps a session. Who signs in again and again loses sessions of their own, and not
// those of others.
func (s *sessions) put(id string, added *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.byID[id]; before != nil {
		if !reflect.DeepEqual(before.user, added.user) {
			s.ended(before.user)
		}
	} else {
		s.makeRoom(func(other *session) bool { return other.user.Name == added.user.Name }, maxOfUser)
		s.makeRoom(func(*session) bool { return true }, maxSessions)
	}
	s.byID[id] = added
	s.sweepLater()
}

// makeRoom removes the session unused for longest, if there are as many as there may be.
func (s *sessions) makeRoom(counts func(*session) bool, most int) {
	count, oldest, at := 0, "", time.Time{}
	for id, each := range s.byID {
		if !counts(each) {
			continue
		}
		count++
		if used := each.lastUsed(); oldest == "" || used.Before(at) {
			oldest, at = id, used
		}
	}
	if count >= most {
		s.remove(oldest)
	}
}

// sweepLater has what has ended forgotten. Who holds the lock calls it.
func (s *sessions) sweepLater() {
	if !s.sweeping && len(s.byID) > 0 {
		s.sweeping = true
		time.AfterFunc(sweepEvery, s.sweep)
	}
}

func (s *sessions) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, each := range s.byID {
		if !each.use(now, s.lifetime, true) {
			s.remove(id)
		}
	}
	s.sweeping = false
	s.sweepLater()
}
