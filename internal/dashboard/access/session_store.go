package access

import (
	"reflect"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// sessionStore holds sessions by the digest of their cookie. Expired sessions are removed soon,
// since they contain tokens.
type sessionStore struct {
	now      func() time.Time
	lifetime time.Duration
	// onEnd is called for each removed session.
	onEnd func(userclient.User)

	mu             sync.Mutex
	byID           map[string]*session
	sweepScheduled bool
}

func newSessionStore(o *Options) *sessionStore {
	return &sessionStore{now: o.Now, lifetime: o.Lifetime, onEnd: o.OnSessionEnd, byID: map[string]*session{}}
}

func (s *sessionStore) get(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

func (s *sessionStore) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(id)
}

// removeLocked removes a session. The caller holds the lock.
func (s *sessionStore) removeLocked(id string) {
	if gone := s.byID[id]; gone != nil {
		delete(s.byID, id)
		s.onEnd(gone.user)
	}
}

// put stores a session. Users with too many sessions lose their own, not those of others.
func (s *sessionStore) put(id string, added *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.byID[id]; before != nil {
		if !reflect.DeepEqual(before.user, added.user) {
			s.onEnd(before.user)
		}
	} else {
		s.evictOldest(func(other *session) bool { return other.user.Name == added.user.Name }, maxSessionsPerUser)
		s.evictOldest(func(*session) bool { return true }, maxSessions)
	}
	s.byID[id] = added
	s.scheduleSweep()
}

// evictOldest removes the session that was idle longest if the limit is reached.
func (s *sessionStore) evictOldest(counts func(*session) bool, most int) {
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
		s.removeLocked(oldest)
	}
}

// scheduleSweep schedules the next sweep. The caller holds the lock.
func (s *sessionStore) scheduleSweep() {
	if !s.sweepScheduled && len(s.byID) > 0 {
		s.sweepScheduled = true
		time.AfterFunc(sweepEvery, s.sweep)
	}
}

func (s *sessionStore) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, each := range s.byID {
		if !each.touch(now, s.lifetime, true) {
			s.removeLocked(id)
		}
	}
	s.sweepScheduled = false
	s.scheduleSweep()
}
