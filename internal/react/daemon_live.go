package react

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// ErrConflict ends a write of a daemon that would overwrite what another client wrote
// since the daemon last saw the object.
var ErrConflict = errors.New("another client changed the same fields meanwhile")

// Live is the object of a daemon while the daemon runs.
type Live struct {
	c       *Controller
	ctx     context.Context //nolint:containedctx // The daemon's own, which it may not outlive in its writes.
	handler *Handler
	key     queue.Key
	uid     string
	changed chan struct{}

	mu sync.Mutex
	// seen is the object as the daemon last saw it.
	seen *object.Object
	// refused is where writes of it were refused.
	refused []trace.Place
}

func newLive(ctx context.Context, c *Controller, h *Handler, o *object.Object) *Live {
	return &Live{c: c, ctx: ctx, handler: h, key: keyOf(o), uid: o.UID(), changed: make(chan struct{}, 1), seen: o}
}

// Changed receives when the object is not as the daemon last saw it.
func (l *Live) Changed() <-chan struct{} { return l.changed }

// wake has Changed receive if the object is newer than what the daemon saw.
func (l *Live) wake(now *object.Object) {
	if seen := l.last(); now.Version() <= seen.Version() || now.Digest() == seen.Digest() {
		return
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Now is the notice of the object as it is now, with what it owns.
func (l *Live) Now() (*hook.Notice, error) {
	now, err := l.now()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.key, err)
	}
	return l.saw(now), nil
}

// Write writes an answer on the object as it is now, and returns it as it is then. It
// ends in ErrConflict, and writes nothing, where the answer changes a field of the object
// that is not as the daemon last saw it.
func (l *Live) Write(a *hook.Answer) (*hook.Notice, error) {
	if a == nil {
		return l.Now()
	}
	now, err := l.now()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", l.key, err)
	}
	c := l.c
	if err := c.program.check(c.noticeOf(l.handler, now), a); err != nil {
		return nil, err
	}
	account := c.aside(now, "daemon "+l.handler.Name+" wrote")
	stored, err := l.write(account, &owed{answer: a})
	c.handInAside(l.ctx, account, err)
	l.refuse(account.Refused())
	if err != nil {
		return nil, err
	}
	return l.saw(stored), nil
}

// write writes on the object as it is, however often it changes meanwhile.
func (l *Live) write(account *trace.Account, o *owed) (*object.Object, error) {
	for range patience {
		now, err := l.now()
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", l.key, err)
		}
		if fields := contested(o.answer, l.last(), now, true); len(fields) > 0 {
			return nil, fmt.Errorf("write %s: %w: %s", l.key, ErrConflict, strings.Join(fields, ", "))
		}
		// What others changed is in what is stored then, which the daemon need not look at.
		l.wake(now)
		stored, err := l.c.writeOnce(l.ctx, account, now, o)
		if !errors.Is(err, errMoved) {
			return stored, err
		}
		if !wait(l.ctx, lookAgain) {
			return nil, l.ctx.Err()
		}
	}
	return nil, fmt.Errorf("write %s: %w", l.key, errChanging)
}

// now is the object as it is: the cache may not have our latest write yet.
func (l *Live) now() (*object.Object, error) {
	now, seen := l.c.get(l.key), l.last()
	switch {
	case now == nil || now.UID() != l.uid:
		return nil, errors.New("the object is gone")
	case now.Version() < seen.Version():
		return seen, nil
	}
	return now, nil
}

// saw notes what the daemon sees.
func (l *Live) saw(now *object.Object) *hook.Notice {
	l.mu.Lock()
	l.seen = now
	l.mu.Unlock()
	n := l.c.noticeOf(l.handler, now)
	n.Owned = l.c.program.shown(l.c.ownedBy(now))
	return n
}

func (l *Live) last() *object.Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// refuse notes where writes were refused.
func (l *Live) refuse(at []trace.Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = trace.With(l.refused, at...)
}

// refusals is where writes were refused so far.
func (l *Live) refusals() []trace.Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.refused)
}
