package handle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// DefaultStopTimeout is how long a deleted object waits for its daemon to stop, unless the
// daemon has a StopTimeout.
const DefaultStopTimeout = 30 * time.Second

// daemonHealthyAfter is how long a failed daemon must run until it counts as healthy. The next
// failure starts a new backoff.
const daemonHealthyAfter = time.Minute

// daemonRun is a running daemon of one object.
type daemonRun struct {
	live    *Live
	stop    context.CancelFunc
	started time.Time
	// done is closed when the daemon has returned err.
	done chan struct{}
	err  error
	// stopped means that the context was cancelled, deadline is until when a deleted object
	// waits, and stuck means that the missed deadline was reported.
	stopped  bool
	deadline time.Time
	stuck    bool
}

// cancel cancels the daemon's context, once.
func (w *daemonRun) cancel(deadline time.Time) {
	if !w.stopped {
		w.stopped, w.deadline = true, deadline
		w.stop()
	}
}

// syncDaemons is the step that starts the daemons of an object, notifies those that run if the
// object changed, and stops the others. A daemon that returns queues the object.
func (r *run) syncDaemons(ctx context.Context) {
	for i := range r.program.Handlers {
		h, m := &r.program.Handlers[i], &r.memory.handlers[i]
		if h.Daemon == nil {
			continue
		}
		desired := r.phase == phaseManaged && !r.stored.Deleting() && h.matches(nil, r.stored)
		m.finished = m.finished && desired
		if m.daemon != nil {
			r.checkDaemonExit(i)
		}
		switch {
		case m.daemon != nil && !desired:
			m.daemon.cancel(r.tools.Now().Add(h.stopTimeout()))
			r.reportStuckDaemon(i)
		case m.daemon != nil:
			r.checkDaemonHealth(i)
			m.daemon.live.notify(r.stored)
		case m.daemon == nil && desired && !m.finished && (r.retriesCalls() || !m.attempt.next.After(r.tools.Now())):
			m.daemon = r.startDaemon(ctx, i)
		}
	}
}

// checkDaemonExit records how a daemon ended, if it did.
func (r *run) checkDaemonExit(i int) {
	m := &r.memory.handlers[i]
	select {
	case <-m.daemon.done:
	default:
		return
	}
	err, stopped, refused := m.daemon.err, m.daemon.stopped, m.daemon.live.refusedLocations()
	m.daemon = nil
	switch {
	case stopped:
		m.attempt, m.errorMessage = attempt{}, ""
	case err == nil:
		m.finished, m.attempt, m.errorMessage = true, attempt{}, ""
	default:
		r.daemonFailed(i, err)
		m.refusedLocations = record.AddLocations(m.refusedLocations, refused...)
	}
}

// daemonFailed schedules the restart of a failed daemon, unless its retries are exhausted.
func (r *run) daemonFailed(i int, err error) {
	h, m := &r.program.Handlers[i], &r.memory.handlers[i]
	now := r.tools.Now()
	if m.attempt.count == 0 {
		m.attempt.since = now
	}
	m.attempt.count++
	m.attempt.next = now.Add(h.delay(err, m.attempt.count))
	err = fmt.Errorf("daemon %s: %w", h.Name, err)
	if hook.IsTerminal(err) || h.exhausted(m.attempt) {
		m.finished, m.attempt = true, attempt{}
		r.recordError(i, failure.WithReason(ReasonGaveUp, fmt.Errorf("gave up: %w", err)))
		return
	}
	r.recordError(i, failure.WithReason(ReasonHandlerFailed, err))
}

// checkDaemonHealth records that a failed daemon is healthy again.
func (r *run) checkDaemonHealth(i int) {
	m := &r.memory.handlers[i]
	if m.attempt.count > 0 && !r.tools.Now().Before(m.daemon.started.Add(daemonHealthyAfter)) {
		m.attempt, m.errorMessage = attempt{}, ""
	}
}

// reportStuckDaemon reports, once, a daemon that missed its StopTimeout. Setpoint starts no
// second one until it returns.
func (r *run) reportStuckDaemon(i int) {
	h, w := &r.program.Handlers[i], r.memory.handlers[i].daemon
	if w.stuck || w.deadline.After(r.tools.Now()) {
		return
	}
	w.stuck = true
	effect := "it restarts only after it has returned"
	if r.stored.Deleting() {
		effect = "the object is deleted without it"
	}
	r.recordError(i, failure.WithReason(ReasonDaemonStuck,
		fmt.Errorf("daemon %s has not returned within %s after its context was cancelled: %s", h.Name, h.stopTimeout(), effect)))
}

// stopTimeout returns how long a deleted object waits for the daemon.
func (h *Handler) stopTimeout() time.Duration { return cmp.Or(h.StopTimeout, DefaultStopTimeout) }

// waitsForDaemon reports whether the object waits for a daemon to return. A deleted object
// does not wait for a stuck one.
func (r *run) waitsForDaemon() bool {
	return slices.ContainsFunc(r.memory.handlers, func(m handlerMemory) bool {
		return m.daemon != nil && (!m.daemon.stuck || !r.stored.Deleting())
	})
}

// nextDaemon returns when a daemon restarts, counts as healthy, or is overdue; zero for none
// of these.
func (m *handlerMemory) nextDaemon() time.Time {
	w := m.daemon
	switch {
	case w == nil:
		return m.attempt.next
	case w.stopped && !w.stuck:
		return w.deadline
	case !w.stopped && m.attempt.count > 0:
		return w.started.Add(daemonHealthyAfter)
	}
	return time.Time{}
}

func (r *run) startDaemon(ctx context.Context, i int) *daemonRun {
	h := &r.program.Handlers[i]
	ctx, stop := context.WithCancel(ctx)
	existing := newLive(ctx, r.Controller, h, r.stored)
	w := &daemonRun{live: existing, stop: stop, started: r.tools.Now(), done: make(chan struct{})}
	n := r.newRequest(h, r.stored)
	n.Owned, n.Attempt = r.program.ownedGroups(r.owned), r.memory.handlers[i].attempt.count
	c, key := r.Controller, r.item.Key
	c.daemons.Go(func() {
		defer stop()
		w.err = c.runDaemon(ctx, h, n, existing)
		close(w.done)
		c.Queue.Add(key, queue.Cause{Kind: queue.RequeueAfter})
	})
	return w
}

// runDaemon runs a daemon and returns its panic, or runtime.Goexit, as an error.
func (c *Controller) runDaemon(ctx context.Context, h *Handler, n *hook.HandlerRequest, existing *Live) error {
	err := failure.Recover("the daemon", func() error { return h.Daemon(ctx, n, existing) })
	c.logPanic(h, n, err)
	return failure.WithSource(failure.Handler, err)
}

// writeOnce writes a response to the current object and returns the stored object.
func (c *Controller) writeOnce(ctx context.Context, rec *record.Record, now *object.Object, o *pendingResponse) (*object.Object, error) {
	h := applier{Controller: c, record: rec, object: now, onWrite: func(object.Ref, *object.Object) {}}
	if err := h.applyResponse(ctx, o); err != nil {
		return nil, err
	}
	r := &run{Controller: c, record: rec, stored: now, detached: true}
	if err := r.storeResponse(ctx, o); err != nil {
		return nil, err
	}
	for _, event := range o.response.Events {
		r.sendEvent(event)
	}
	if r.written {
		// Handlers may watch what the daemon wrote.
		c.Queue.Add(controller.KeyOf(now), queue.Cause{Kind: queue.RequeueAfter})
	}
	return r.stored, nil
}
