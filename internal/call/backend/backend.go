// Package backend follows the processes that serve handlers.
//
// Several controllers may have their handlers in one process. It keeps one stream of notifications open to each process
// and passes the lines on, and it knows whether the indexes of all controllers of the process are complete. It does not
// know how to connect, or what a controller does with a line; package handler has both.
package backend

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/hook"
)

// Controller is a controller with handlers in a process. Its methods must return soon.
type Controller interface {
	// Connected is called when a connection is open: the process may be a new one.
	Connected()
	// Handles reports whether the controller handles objects of a kind.
	Handles(apiVersion, kind string) bool
	// Notified is called for each line that names an object of a handled kind.
	Notified(n *hook.Notification)
	// Publish sends the event of a line.
	Publish(n *hook.Notification)
	// IndexesComplete is called when calls may be made again.
	IndexesComplete()
}

// Member is what a process has of a controller.
type Member struct {
	// Name is the name of the controller.
	Name string
	// Open opens the stream of notifications; nil if the controller declares none.
	Open Opener
	// Indexed means that the controller feeds an index: the calls of all controllers of the
	// process wait until SetComplete.
	Indexed bool
}

// Opener opens a stream of notifications, which ends with the context.
type Opener func(ctx context.Context) (io.ReadCloser, error)

// Backends are the processes of all controllers.
type Backends struct {
	log     *slog.Logger
	observe func(result Result)

	mu sync.Mutex
	// byID are the processes that controllers share.
	byID map[string]*backend
	// known means that all controllers that are listed at the start have joined.
	known bool
}

// Result is what became of a line.
type Result string

// The results.
const (
	ResultObject    Result = "object"
	ResultEvent     Result = "event"
	ResultUnknown   Result = "unknown"
	ResultMalformed Result = "malformed"
)

// New returns no processes yet. The function observe is called for each line.
func New(log *slog.Logger, observe func(Result)) *Backends {
	return &Backends{log: log, observe: observe, byID: map[string]*backend{}}
}

// SetKnown ends the wait of all processes with indexes for controllers that may still join.
func (ps *Backends) SetKnown() {
	ps.mu.Lock()
	ps.known = true
	all := slices.Collect(maps.Values(ps.byID))
	ps.mu.Unlock()
	for _, p := range all {
		p.notifyIfComplete()
	}
}

func (ps *Backends) allKnown() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.known
}

// Join adds a controller to the process with an ID, which is the same for all its controllers.
func (ps *Backends) Join(id string, c Controller, member Member) *Membership {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byID[id]
	if p == nil {
		p = &backend{backends: ps, id: id}
		ps.byID[id] = p
	}
	m := &Membership{Member: member, backend: p, controller: c, complete: !member.Indexed}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = append(p.members, m)
	return m
}

// leave removes a member, and the process after the last one.
func (ps *Backends) leave(m *Membership) {
	p := m.backend
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = slices.DeleteFunc(p.members, func(other *Membership) bool { return other == m })
	if len(p.members) == 0 && ps.byID[p.id] == p {
		delete(ps.byID, p.id)
	}
}
