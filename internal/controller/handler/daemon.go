package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
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
	for _, h := range r.memory.handlers {
		if h.Daemon == nil {
			continue
		}
		desired := r.Phase == controller.PhaseManaged && !r.Stored.Deleting() && r.wantsDaemon(h)
		if h.daemon != nil {
			r.checkDaemonExit(h)
		}
		connection := r.backend.Connections()
		reconnected := h.daemonConnection != connection
		if h.daemon != nil && (reconnected || r.causes.Has(queue.Notified)) {
			wake(h.daemon.live.notified)
		}
		h.daemonConnection = connection
		h.finished = h.finished && desired && !reconnected
		switch {
		case h.daemon != nil && !desired:
			h.daemon.cancel(r.tools.Now().Add(h.stopTimeout()))
			if !h.daemon.deadline.After(r.tools.Now()) {
				r.reportStuckDaemon(h, h.daemon)
			}
		case h.daemon != nil:
			r.checkDaemonHealth(h)
			h.daemon.live.notify(r.Stored)
		case desired && !h.finished && (reconnected || r.retriesCalls() || !h.attempt.next.After(r.tools.Now())):
			r.startDaemon(ctx, h)
		case !desired && h.daemonLost:
			// Only the process knows whether it runs.
			r.startDaemon(ctx, h)
			h.daemon.cancel(r.tools.Now().Add(h.stopTimeout()))
		}
	}
}

// wantsDaemon reports whether the object is to have a daemon. As long as that is not known, a running
// one goes on.
func (r *run) wantsDaemon(h *handlerMemory) bool {
	if applicable, known := r.isApplicable(h); known {
		return applicable
	}
	return h.daemon != nil
}

// checkDaemonExit records how a daemon ended, if it did.
func (r *run) checkDaemonExit(h *handlerMemory) {
	select {
	case <-h.daemon.done:
	default:
		return
	}
	ended := h.daemon
	h.daemon, h.daemonLost = nil, false
	if ended.stopped && errors.Is(ended.err, errDaemonRuns) {
		r.reportStuckDaemon(h, ended)
	}
	if ended.stopped || ended.err == nil {
		h.finished = !ended.stopped
		h.succeed()
		return
	}
	h.daemonLost = isLost(ended.err)
	r.daemonFailed(h, ended.err)
	h.failed.refused = record.AddLocations(h.failed.refused, ended.live.refusedLocations()...)
}

// daemonFailed schedules the restart of a failed daemon, unless its retries are exhausted.
func (r *run) daemonFailed(h *handlerMemory, err error) {
	now := r.tools.Now()
	if h.attempt.count == 0 {
		h.attempt.since = now
	}
	h.attempt.count++
	h.attempt.next = now.Add(h.delay(err, h.attempt.count, r.tools.Queue.Random))
	err = fmt.Errorf("daemon %s: %w", h.title(), err)
	if hook.IsTerminal(err) || h.exhausted(h.attempt) {
		h.finished, h.attempt = true, attempt{}
		r.recordError(h, failure.WithReason(ReasonGaveUp, fmt.Errorf("gave up: %w", err)))
		return
	}
	r.recordError(h, failure.WithReason(ReasonHandlerFailed, err))
}

// checkDaemonHealth records that a failed daemon is healthy again.
func (r *run) checkDaemonHealth(h *handlerMemory) {
	if h.attempt.count > 0 && !r.tools.Now().Before(h.daemon.started.Add(daemonHealthyAfter)) {
		h.succeed()
	}
}

// reportStuckDaemon reports, once, a daemon that missed its StopTimeout. Setpoint starts no
// second one until it returns.
func (r *run) reportStuckDaemon(h *handlerMemory, w *daemonRun) {
	if w.stuck {
		return
	}
	w.stuck = true
	effect := "it restarts only after it has returned"
	if r.Stored.Deleting() {
		effect = "the object is deleted without it"
	}
	r.recordError(h, failure.WithReason(ReasonDaemonStuck,
		fmt.Errorf("daemon %s has not returned within %s after its context was cancelled: %s", h.title(), h.stopTimeout(), effect)))
}

// stopTimeout returns how long a deleted object waits for the daemon.
func (h *Handler) stopTimeout() time.Duration { return cmp.Or(h.StopTimeout, DefaultStopTimeout) }

// waitsForDaemon reports whether the object waits for a daemon to return. A deleted object
// does not wait for a stuck one.
func (r *run) waitsForDaemon() bool {
	return slices.ContainsFunc(r.memory.handlers, func(h *handlerMemory) bool {
		return h.daemon != nil && (!h.daemon.stuck || !r.Stored.Deleting())
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

func (r *run) startDaemon(ctx context.Context, m *handlerMemory) {
	h := m.Handler
	running := ctx
	ctx, stop := context.WithCancel(ctx)
	existing := newLive(ctx, r.Controller, h, r.Stored)
	existing.controllerCtx = running
	w := &daemonRun{live: existing, stop: stop, started: r.tools.Now(), done: make(chan struct{})}
	n := r.newRequest(h, r.Stored)
	n.Owned, n.Attempt = r.program.ownedGroups(r.owned), m.attempt.count
	c, key := r.Controller, r.Item.Key
	c.daemons.Go(func() {
		defer stop()
		w.err = c.runDaemon(ctx, n, existing)
		close(w.done)
		c.Queue.Add(key, queue.Cause{Kind: queue.RequeueAfter})
	})
	m.daemon = w
}

// runDaemon runs a daemon until it returns. One in another process has one goroutine, which waits
// most of the time.
func (c *Controller) runDaemon(ctx context.Context, n *hook.HandlerRequest, existing *Live) (err error) {
	h := existing.handler
	run := func() error { return h.Daemon(ctx, n, existing) }
	values, asked := redact.New(nil, n.Namespace, n.Name), recordedRequest(n)
	record.See(values, c.program.Resource, &asked, &record.Response{})
	values.See(false, func(visit func(json.RawMessage)) { visit(existing.lastSeen().JSON()) })
	if h.Do == nil {
		n.Reader = reader{c, n.Namespace, values}
		return c.CallUserCode("the daemon", failure.Handler, logAttrs(n, h), values, run)
	}
	defer func() {
		if p := recover(); p != nil {
			values.Logger(c.Log).Error("daemon panicked", "handler", h.Name, "object", existing.key.String(), "panic", p, "stack",
				string(debug.Stack()))
			err = failure.WithReason(controller.ReasonInternalError, failure.FromPanic("internal error in Setpoint", p))
		}
	}()
	return run()
}

// writeOnce writes a response to the object of a detached run.
func (c *Controller) writeOnce(ctx context.Context, of *controller.Run, o *pendingResponse) error {
	r := &run{Controller: c, Run: of, detached: true}
	if err := r.applyResponse(ctx, o); err != nil {
		return err
	}
	if err := r.storeResponse(ctx, o); err != nil {
		return err
	}
	for _, event := range o.response.Events {
		r.SendEvent(event)
	}
	if r.written {
		// Handlers may watch what the daemon wrote.
		c.Queue.Add(controller.KeyOf(of.Stored), queue.Cause{Kind: queue.RequeueAfter})
	}
	return nil
}
