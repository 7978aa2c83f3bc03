package react

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// working is a daemon at work for one object.
type working struct {
	stop context.CancelFunc
	// ended is closed when it has returned; err is what it returned then.
	ended chan struct{}
	err   error
	// stopped says that it was told to end.
	stopped bool

	mu sync.Mutex
	// refused is where writes of it were refused.
	refused []trace.Place
}

// refuse notes where writes were refused.
func (w *working) refuse(at []trace.Place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = trace.With(w.refused, at...)
}

// refusals is where writes were refused so far.
func (w *working) refusals() []trace.Place {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.refused)
}

// attend is the step that starts the daemons of an object, and stops those that
// are not wanted any more. Who ends queues the object.
func (r *run) attend(ctx context.Context) {
	for i := range r.program.Handlers {
		h, m := &r.program.Handlers[i], &r.memory.handlers[i]
		if h.Daemon == nil {
			continue
		}
		wanted := r.stance == handling && !r.stored.Deleting() && h.cares(nil, r.stored)
		m.finished = m.finished && wanted
		if m.working != nil {
			r.look(i)
		}
		switch {
		case m.working != nil && !wanted:
			m.working.stopped = true
			m.working.stop()
		case m.working == nil && wanted && !m.finished && (r.pressed() || !m.attempt.next.After(r.tools.Now())):
			m.working = r.start(ctx, i)
		}
	}
}

// look notes how a daemon ended, if it did.
func (r *run) look(i int) {
	m := &r.memory.handlers[i]
	select {
	case <-m.working.ended:
	default:
		return
	}
	err, stopped, refused := m.working.err, m.working.stopped, m.working.refusals()
	m.working = nil
	switch {
	case stopped:
		m.attempt = attempt{}
	case err == nil:
		m.finished, m.attempt, m.complaint = true, attempt{}, ""
	default:
		r.daemonFailed(i, err)
		m.among = trace.With(m.among, refused...)
	}
}

// daemonFailed notes when a daemon is started again, if it is.
func (r *run) daemonFailed(i int, err error) {
	h, m := &r.program.Handlers[i], &r.memory.handlers[i]
	now := r.tools.Now()
	if m.attempt.count == 0 {
		m.attempt.since = now
	}
	m.attempt.count++
	m.attempt.next = now.Add(h.delay(err, m.attempt.count))
	err = fmt.Errorf("daemon %s: %w", h.Name, err)
	if hook.Terminal(err) || h.exhausted(m.attempt) {
		m.finished, m.attempt = true, attempt{}
		r.complain(i, failure.New(ReasonGaveUp, fmt.Errorf("gave up: %w", err)))
		return
	}
	r.complain(i, failure.New(ReasonHandlerFailed, err))
}

// working says whether a daemon has not returned yet.
func (r *run) working() bool {
	for i := range r.memory.handlers {
		if r.memory.handlers[i].working != nil {
			return true
		}
	}
	return false
}

// start starts a daemon.
func (r *run) start(ctx context.Context, i int) *working {
	h := &r.program.Handlers[i]
	ctx, stop := context.WithCancel(ctx)
	w := &working{stop: stop, ended: make(chan struct{})}
	n := r.noticeOf(h, r.stored)
	n.Owned, n.Attempt = r.program.shown(r.owned), r.memory.handlers[i].attempt.count
	c, key, uid := r.Controller, r.item.Key, r.stored.UID()
	write := func(a *hook.Answer) error { return c.writeFor(ctx, w, n, uid, a) }
	c.daemons.Go(func() {
		defer stop()
		w.err = c.daemon(ctx, h, n, write)
		close(w.ended)
		c.queue.Add(key, queue.Cause{Kind: queue.Recheck})
	})
	return w
}

// daemon runs a daemon, and has its panic be an error.
func (c *Controller) daemon(ctx context.Context, h *Handler, n *hook.Notice, write func(*hook.Answer) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("daemon panicked", "handler", h.Name, "panic", p, "stack", string(debug.Stack()))
			err = failure.Panicked("the daemon panicked", p)
		}
	}()
	return failure.By(failure.Handler, h.Daemon(ctx, n, write))
}

// writeFor writes what a daemon hands over, on the object as it is now.
func (c *Controller) writeFor(ctx context.Context, w *working, n *hook.Notice, uid string, a *hook.Answer) error {
	if a == nil {
		return nil
	}
	if err := c.program.check(n, a); err != nil {
		return err
	}
	key := queue.Key{Namespace: n.Namespace, Name: n.Name}
	now := c.get(key)
	if now == nil || now.UID() != uid {
		return fmt.Errorf("write %s: the object is gone", key)
	}
	account := c.aside(now, "daemon "+n.Handler+" wrote")
	err := c.writePatiently(ctx, account, now, &owed{answer: a})
	c.handInAside(ctx, account, err)
	w.refuse(account.Refused())
	return err
}

// writePatiently writes on the object as it is, however often it changes meanwhile.
func (c *Controller) writePatiently(ctx context.Context, account *trace.Account, former *object.Object, o *owed) error {
	key := keyOf(former)
	for range patience {
		now := c.get(key)
		if now == nil || now.UID() != former.UID() {
			return fmt.Errorf("write %s: the object is gone", key)
		}
		err := c.writeOnce(ctx, account, now, o)
		if !errors.Is(err, errMoved) {
			return err
		}
		if !wait(ctx, lookAgain) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("write %s: %w", key, errChanging)
}

func (c *Controller) writeOnce(ctx context.Context, account *trace.Account, now *object.Object, o *owed) error {
	h := hands{Controller: c, account: account, object: now, landed: func(object.Ref, *object.Object) {}}
	if err := h.carry(ctx, o); err != nil {
		return err
	}
	r := &run{Controller: c, account: account, stored: now, aside: true}
	if err := r.storeAside(ctx, o); err != nil {
		return err
	}
	for _, event := range o.answer.Events {
		r.say(event)
	}
	if r.written {
		// It may be news to handlers.
		c.queue.Add(keyOf(now), queue.Cause{Kind: queue.Recheck})
	}
	return nil
}
