package handler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// ErrConflict ends a daemon's write that would overwrite another client's change since the
// daemon last saw the object.
var ErrConflict = errors.New("another client changed the same fields")

var errObjectGone = errors.New("the object is gone")

// Live is the object of a running daemon.
type Live struct {
	controller *Controller
	ctx        context.Context //nolint:containedctx // Writes end with the daemon's context.
	// controllerCtx is that of the controller: Setpoint stops when it ends.
	controllerCtx context.Context //nolint:containedctx // Daemons in other processes outlive ctx.
	handler       *Handler
	key           queue.Key
	uid           string
	changed       chan struct{}
	// notified receives when the process of the handler named the object.
	notified chan struct{}

	mu sync.Mutex
	// seen is the object as the daemon last saw it.
	seen *object.Object
	// refusedAt are the locations of refused writes.
	refusedAt []record.Location
}

func newLive(ctx context.Context, c *Controller, h *Handler, o *object.Object) *Live {
	return &Live{controller: c, ctx: ctx, handler: h, key: controller.KeyOf(o), uid: o.UID(), changed: make(chan struct{}, 1),
		notified: make(chan struct{}, 1), seen: o}
}

// Changed receives when the object differs from what the daemon last saw, apart from the records
// of handlers.
func (l *Live) Changed() <-chan struct{} { return l.changed }

// notify sends on Changed if the object is newer than what the daemon saw.
func (l *Live) notify(now *object.Object) {
	if seen := l.lastSeen(); now.Version() <= seen.Version() || !differs(seen, now) {
		return
	}
	wake(l.changed)
}

// wake sends on a channel unless the receiver has not received the last value yet.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Get returns the request for the current object, with what it owns.
func (l *Live) Get() (*hook.HandlerRequest, error) {
	now, err := l.get()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.key, err)
	}
	return l.setSeen(now), nil
}

// Write writes a response to the current object and returns the stored object. It returns
// ErrConflict, and writes nothing, if the response sets a field that changed since the daemon
// last saw the object.
func (l *Live) Write(a *hook.HandlerResponse) (*hook.HandlerRequest, error) {
	if a == nil {
		return l.Get()
	}
	a = withWholeNumbers(a)
	now, err := l.get()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", l.key, err)
	}
	c := l.controller
	if err := c.program.checkResponse(c.newRequest(l.handler, now), a); err != nil {
		return nil, err
	}
	ctx, run := c.NewDetachedRun(l.ctx, now, "daemon "+l.handler.title()+" wrote")
	err = l.write(ctx, run, &pendingResponse{response: a})
	run.FinishDetached(l.ctx, err)
	l.addRefused(run.Record.Refused())
	if err != nil {
		return nil, err
	}
	return l.setSeen(run.Stored), nil
}

// write retries the write when the object changes meanwhile.
func (l *Live) write(ctx context.Context, run *controller.Run, o *pendingResponse) error {
	for range controller.MaxConflicts {
		now, err := l.get()
		if err != nil {
			return fmt.Errorf("write %s: %w", l.key, err)
		}
		if fields := conflictingFields(o.response, l.lastSeen(), now, true); len(fields) > 0 {
			return fmt.Errorf("write %s: %w: %s", l.key, ErrConflict, strings.Join(fields, ", "))
		}
		// The stored object may have changes of others, which the daemon has not seen.
		l.notify(now)
		run.Stored = now
		if err := l.controller.writeOnce(ctx, run, o); !errors.Is(err, controller.ErrConflict) {
			return err
		}
		if !controller.Sleep(ctx, controller.ConflictDelay) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("write %s: %w", l.key, errTooManyConflicts)
}

// get returns the current object. The cache may not have our latest write yet.
func (l *Live) get() (*object.Object, error) {
	now, seen := l.controller.Get(l.key), l.lastSeen()
	switch {
	case now == nil || now.UID() != l.uid:
		return nil, errObjectGone
	case now.Version() < seen.Version():
		return seen, nil
	}
	return now, nil
}

// setSeen records what the daemon sees.
func (l *Live) setSeen(now *object.Object) *hook.HandlerRequest {
	l.mu.Lock()
	l.seen = now
	l.mu.Unlock()
	n := l.controller.newRequest(l.handler, now)
	n.Owned = l.controller.program.ownedGroups(l.controller.ownedBy(now))
	return n
}

func (l *Live) lastSeen() *object.Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// addRefused records the locations of refused writes.
func (l *Live) addRefused(at []record.Location) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusedAt = record.AddLocations(l.refusedAt, at...)
}

// refusedLocations returns the locations of refused writes.
func (l *Live) refusedLocations() []record.Location {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.refusedAt)
}
