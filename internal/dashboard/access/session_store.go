package access

import (
	"crypto/rand"
	"reflect"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// session is the session of a user. The lock of its store guards the times.
type session struct {
	user userclient.User
	csrf string

	began, used, verified time.Time
}

func newSession(u userclient.User, now time.Time) *session {
	return &session{user: u, csrf: rand.Text(), began: now, used: now, verified: now}
}

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

// use returns a session, and resets its idle time unless the request is a background request.
// An expired session is known, but nil.
func (s *sessionStore) use(id string, background bool) (found *session, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found = s.byID[id]
	switch {
	case found == nil:
		return nil, false
	case s.isExpired(found):
		s.removeLocked(id)
		return nil, true
	case !background:
		found.used = s.now()
	}
	return found, true
}

func (s *sessionStore) isExpired(each *session) bool {
	now := s.now()
	return now.Sub(each.used) > idleTimeout || now.Sub(each.began) > s.lifetime
}

// claimVerification reports whether the token is due for verification, to one caller only.
func (s *sessionStore) claimVerification(each *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.now().Sub(each.verified) > verifyInterval
	if due {
		each.verified = s.now()
	}
	return due
}

// retryVerification schedules an early verification.
func (s *sessionStore) retryVerification(each *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	each.verified = s.now().Add(verifyRetryInterval - verifyInterval)
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
		if oldest == "" || each.used.Before(at) {
			oldest, at = id, each.used
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
	for id, each := range s.byID {
		if s.isExpired(each) {
			s.removeLocked(id)
		}
	}
	s.sweepScheduled = false
	s.scheduleSweep()
}
