package backend

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// backend is one process.
type backend struct {
	backends *Backends
	id       string

	mu      sync.Mutex
	members []*Membership
	// following is set while a goroutine follows the stream. stream is the member whose opener
	// opened it, and endStream ends the connection.
	following bool
	// tried is closed when the first attempt to connect has ended.
	tried     chan struct{}
	stream    *Membership
	endStream context.CancelFunc
	// connections counts the connections of the stream; isOpen means that one is open.
	connections uint64
	isOpen      bool
	// err is why there is no connection, failing since when, and logged what was logged about it.
	err     error
	failing time.Time
	logged  string
	// waited means that IndexesComplete has to be called.
	waited bool

	// malformed counts the invalid lines since malformedLogged. The goroutine of the stream has both.
	malformed       int
	malformedLogged time.Time
}

// Membership is that of a controller in its process. A nil one is that of a controller without
// a process: nothing waits.
type Membership struct {
	Member

	backend    *backend
	controller Controller

	// Guarded by backend.mu. indexErr is why the index is not complete.
	running, complete bool
	indexErr          error
}

// firstConnection limits how long Start waits for the stream.
const firstConnection = time.Second

// Start follows the notifications until Stop. It waits a moment for the first connection, so that
// what the controller does then need not be repeated when it is open.
func (m *Membership) Start() {
	if m == nil {
		return
	}
	p := m.backend
	p.mu.Lock()
	m.running = true
	follow := m.Open != nil && !p.following
	if follow {
		p.following, p.tried = true, make(chan struct{})
		go p.follow()
	}
	connected, tried := p.connected(m), p.tried
	p.mu.Unlock()
	if connected {
		m.controller.Connected()
		return
	}
	select {
	case <-tried:
	case <-time.After(firstConnection):
	}
}

// endTry is called with the lock held, at the end of an attempt to connect.
func (p *backend) endTry() {
	select {
	case <-p.tried:
	default:
		close(p.tried)
	}
}

// connected reports whether the member may call the process. A process without a stream is taken as connected.
func (p *backend) connected(m *Membership) bool { return m.Open == nil || p.isOpen }

// Stop ends what Start began. The stream goes on as long as another member runs.
func (m *Membership) Stop() {
	if m == nil {
		return
	}
	m.backend.mu.Lock()
	defer m.backend.mu.Unlock()
	m.running = false
	if m.backend.stream == m {
		m.backend.endStream()
	}
}

// Leave removes the controller from its process.
func (m *Membership) Leave() {
	if m == nil {
		return
	}
	m.backend.backends.leave(m)
	m.backend.notifyIfComplete()
}

// SetComplete records whether the index of the controller is complete.
func (m *Membership) SetComplete(complete bool) {
	m.backend.mu.Lock()
	m.complete = complete
	if complete {
		m.indexErr = nil
	}
	m.backend.mu.Unlock()
	m.backend.notifyIfComplete()
}

// SetIndexError records why the index of the controller is not complete.
func (m *Membership) SetIndexError(err error) {
	m.backend.mu.Lock()
	defer m.backend.mu.Unlock()
	m.indexErr = err
}

// MayCall reports whether the indexes of all controllers of the process are complete. If not,
// IndexesComplete is called later.
func (m *Membership) MayCall() bool {
	known := m.backend.backends.allKnown()
	m.backend.mu.Lock()
	defer m.backend.mu.Unlock()
	may := known && m.backend.incomplete() == nil
	m.backend.waited = m.backend.waited || !may
	return may
}

// IndexError returns why calls wait for the index of a controller of the process; nil if they do not.
func (m *Membership) IndexError() error {
	if m == nil {
		return nil
	}
	m.backend.mu.Lock()
	defer m.backend.mu.Unlock()
	switch other := m.backend.incomplete(); {
	case other == nil:
		return nil
	case other.indexErr != nil:
		return fmt.Errorf("the index of %s is not complete: %w", other.Name, other.indexErr)
	default:
		return fmt.Errorf("the index of %s is not complete", other.Name)
	}
}

// Connections returns how often the stream has connected.
func (m *Membership) Connections() uint64 {
	if m == nil {
		return 0
	}
	m.backend.mu.Lock()
	defer m.backend.mu.Unlock()
	return m.backend.connections
}

// StreamError returns why the stream has had no connection for a while, nil if it has.
func (m *Membership) StreamError() error {
	if m == nil {
		return nil
	}
	m.backend.mu.Lock()
	defer m.backend.mu.Unlock()
	if m.Open == nil || m.backend.err == nil || time.Since(m.backend.failing) < reportedAfter {
		return nil
	}
	return m.backend.err
}

// incomplete returns a member whose index is not complete; nil if there is none. It is called with the lock held.
func (p *backend) incomplete() *Membership {
	i := slices.IndexFunc(p.members, func(m *Membership) bool { return !m.complete })
	if i < 0 {
		return nil
	}
	return p.members[i]
}

// notifyIfComplete lets controllers that wait make their calls.
func (p *backend) notifyIfComplete() {
	known := p.backends.allKnown()
	p.mu.Lock()
	notify := p.waited && known && p.incomplete() == nil
	if notify {
		p.waited = false
	}
	members := slices.Clone(p.members)
	p.mu.Unlock()
	if !notify {
		return
	}
	for _, m := range members {
		m.controller.IndexesComplete()
	}
}
