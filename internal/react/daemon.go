package react

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// DefaultStopTimeout is how long a deleted object waits for a daemon that was told to
// end, unless the daemon has a StopTimeout.
const DefaultStopTimeout = 30 * time.Second

// daemonRecovers is how long a daemon that failed must run until it works again: what
// failed is over then, and another failure is the first one.
const daemonRecovers = time.Minute

// working is a daemon at work for one object.
type working struct {
	live *Live
	stop context.CancelFunc
	// started is when it was started.
	started time.Time
	// ended is closed when it has returned; err is what it returned then.
	ended chan struct{}
	err   error
	// stopped says that its context was cancelled, deadline until when a deleted object
	// waits for it, and stuck that it has not returned by then, which was reported.
	stopped  bool
	deadline time.Time
	stuck    bool
}

// cancel ends the daemon's context, once.
func (w *working) cancel(deadline time.Time) {
	if !w.stopped {
		w.stopped, w.deadline = true, deadline
		w.stop()
	}
}

// attend is the step that starts the daemons of an object, wakes those that run if the
// object changed, and stops those that are not wanted any more. One that returns queues
// the object.
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
			m.working.cancel(r.tools.Now().Add(h.stopTimeout()))
			r.overdue(i)
		case m.working != nil:
			r.recovers(i)
			m.working.live.wake(r.stored)
		case m.working == nil && wanted && !m.finished && (r.urged() || !m.attempt.next.After(r.tools.Now())):
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
	err, stopped, refused := m.working.err, m.working.stopped, m.working.live.refusals()
	m.working = nil
	switch {
	case stopped:
		m.attempt, m.complaint = attempt{}, ""
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

// recovers notes that a daemon works again which failed before.
func (r *run) recovers(i int) {
	m := &r.memory.handlers[i]
	if m.attempt.count > 0 && !r.tools.Now().Before(m.working.started.Add(daemonRecovers)) {
		m.attempt, m.complaint = attempt{}, ""
	}
}

// overdue reports, once, a daemon that has not returned within its StopTimeout. It
// stays the only one of its kind for the object until it does.
func (r *run) overdue(i int) {
	h, w := &r.program.Handlers[i], r.memory.handlers[i].working
	if w.stuck || w.deadline.After(r.tools.Now()) {
		return
	}
	w.stuck = true
	effect := "it is not started again before it returns"
	if r.stored.Deleting() {
		effect = "the object is deleted without it"
	}
	r.complain(i, failure.New(ReasonDaemonStuck,
		fmt.Errorf("daemon %s has not returned %s after its context was cancelled: %s", h.Name, h.stopTimeout(), effect)))
}

// stopTimeout is how long a deleted object waits for the daemon.
func (h *Handler) stopTimeout() time.Duration { return cmp.Or(h.StopTimeout, DefaultStopTimeout) }

// working says whether the object waits for a daemon to return. A deleted one does not
// wait for a daemon that is stuck.
func (r *run) working() bool {
	return slices.ContainsFunc(r.memory.handlers, func(m recall) bool {
		return m.working != nil && (!m.working.stuck || !r.stored.Deleting())
	})
}

// nextDaemon is when a daemon is to be started again, has recovered, or is overdue; zero
// for none of these.
func (m *recall) nextDaemon() time.Time {
	w := m.working
	switch {
	case w == nil:
		return m.attempt.next
	case w.stopped && !w.stuck:
		return w.deadline
	case !w.stopped && m.attempt.count > 0:
		return w.started.Add(daemonRecovers)
	}
	return time.Time{}
}

// start starts a daemon.
func (r *run) start(ctx context.Context, i int) *working {
	h := &r.program.Handlers[i]
	ctx, stop := context.WithCancel(ctx)
	live := newLive(ctx, r.Controller, h, r.stored)
	w := &working{live: live, stop: stop, started: r.tools.Now(), ended: make(chan struct{})}
	n := r.noticeOf(h, r.stored)
	n.Owned, n.Attempt = r.program.shown(r.owned), r.memory.handlers[i].attempt.count
	c, key := r.Controller, r.item.Key
	c.daemons.Go(func() {
		defer stop()
		w.err = c.daemon(ctx, h, n, live)
		close(w.ended)
		c.queue.Add(key, queue.Cause{Kind: queue.Recheck})
	})
	return w
}

// daemon runs a daemon. Its panic, or runtime.Goexit, is an error.
func (c *Controller) daemon(ctx context.Context, h *Handler, n *hook.Notice, live *Live) error {
	err := failure.Contain("the daemon", func() error { return h.Daemon(ctx, n, live) })
	c.logCrash(h, n, err)
	return failure.By(failure.Handler, err)
}

// writeOnce writes on the object as it is, and returns it as it is stored then.
func (c *Controller) writeOnce(ctx context.Context, account *trace.Account, now *object.Object, o *owed) (*object.Object, error) {
	h := hands{Controller: c, account: account, object: now, landed: func(object.Ref, *object.Object) {}}
	if err := h.carry(ctx, o); err != nil {
		return nil, err
	}
	r := &run{Controller: c, account: account, stored: now, aside: true}
	if err := r.storeAside(ctx, o); err != nil {
		return nil, err
	}
	for _, event := range o.answer.Events {
		r.say(event)
	}
	if r.written {
		// It may be news to handlers.
		c.queue.Add(keyOf(now), queue.Cause{Kind: queue.Recheck})
	}
	return r.stored, nil
}
