package handle

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

// ErrConflict ends a write of a daemon that would overwrite what another client wrote
// since the daemon last saw the object.
var ErrConflict = errors.New("another client changed the same fields")

// Live is the object of a daemon while the daemon runs.
type Live struct {
	controller *Controller
	ctx        context.Context //nolint:containedctx // The daemon's own, which it may not outlive in its writes.
	handler    *Handler
	key        queue.Key
	uid        string
	changed    chan struct{}

	mu sync.Mutex
	// seen is the object as the daemon last saw it.
	seen *object.Object
	// refusedAt is where writes of it were refused.
	refusedAt []record.Location
}

func newLive(ctx context.Context, c *Controller, h *Handler, o *object.Object) *Live {
	return &Live{controller: c, ctx: ctx, handler: h, key: controller.KeyOf(o), uid: o.UID(), changed: make(chan struct{}, 1), seen: o}
}

// Changed receives when the object is not as the daemon last saw it.
func (l *Live) Changed() <-chan struct{} { return l.changed }

// notify has Changed receive if the object is newer than what the daemon saw.
func (l *Live) notify(now *object.Object) {
	if seen := l.lastSeen(); now.Version() <= seen.Version() || now.Digest() == seen.Digest() {
		return
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Get is the notice of the object as it is now, with what it owns.
func (l *Live) Get() (*hook.HandlerRequest, error) {
	now, err := l.get()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.key, err)
	}
	return l.setSeen(now), nil
}

// Write writes an answer on the object as it is now, and returns it as it is then. It
// ends in ErrConflict, and writes nothing, where the answer changes a field of the object
// that is not as the daemon last saw it.
func (l *Live) Write(a *hook.HandlerResponse) (*hook.HandlerRequest, error) {
	if a == nil {
		return l.Get()
	}
	now, err := l.get()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", l.key, err)
	}
	c := l.controller
	if err := c.program.checkResponse(c.newRequest(l.handler, now), a); err != nil {
		return nil, err
	}
	rec := c.startDetachedRecord(now, "daemon "+l.handler.Name+" wrote")
	stored, err := l.write(rec, &pendingResponse{response: a})
	c.finishDetachedRecord(l.ctx, rec, err)
	l.addRefused(rec.Refused())
	if err != nil {
		return nil, err
	}
	return l.setSeen(stored), nil
}

// write writes on the object as it is, however often it changes meanwhile.
func (l *Live) write(rec *record.Record, o *pendingResponse) (*object.Object, error) {
	for range controller.MaxConflicts {
		now, err := l.get()
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", l.key, err)
		}
		if fields := conflictingFields(o.response, l.lastSeen(), now, true); len(fields) > 0 {
			return nil, fmt.Errorf("write %s: %w: %s", l.key, ErrConflict, strings.Join(fields, ", "))
		}
		// What others changed is in what is stored then, which the daemon need not look at.
		l.notify(now)
		stored, err := l.controller.writeOnce(l.ctx, rec, now, o)
		if !errors.Is(err, controller.ErrConflict) {
			return stored, err
		}
		if !sleep(l.ctx, controller.ConflictDelay) {
			return nil, l.ctx.Err()
		}
	}
	return nil, fmt.Errorf("write %s: %w", l.key, errTooManyConflicts)
}

// get is the object as it is: the cache may not have our latest write yet.
func (l *Live) get() (*object.Object, error) {
	now, seen := l.controller.Get(l.key), l.lastSeen()
	switch {
	case now == nil || now.UID() != l.uid:
		return nil, errors.New("the object is gone")
	case now.Version() < seen.Version():
		return seen, nil
	}
	return now, nil
}

// setSeen notes what the daemon sees.
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

// addRefused notes where writes were refused.
func (l *Live) addRefused(at []record.Location) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusedAt = record.AddLocations(l.refusedAt, at...)
}

// refusedLocations is where writes were refused so far.
func (l *Live) refusedLocations() []record.Location {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.refusedAt)
}
