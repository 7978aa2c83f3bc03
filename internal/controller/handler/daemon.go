package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/daemon"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

func (d *daemonState) update(ctx context.Context, r *run) {
	now, desired := r.Now(), r.Phase == controller.PhaseManaged && !r.Stored.Deleting()
	if desired {
		applicable, known := r.pass.IsApplicable(d.State)
		desired = applicable || !known && d.running != nil // As long as that is not known, a running one goes on.
	}
	if d.running != nil {
		d.checkExit(r)
	}
	connection := r.backend.Connections()
	reconnected := d.connection != connection
	if d.running != nil && (reconnected || r.pass.Causes.Has(queue.Notified)) {
		d.running.object.Wake()
	}
	d.connection, d.finished = connection, d.finished && desired && !reconnected
	switch {
	case d.running != nil && !desired:
		d.running.cancel(now.Add(daemon.StopTimeout(d.Handler)))
		if !d.running.deadline.After(now) {
			d.reportStuck(r, d.running)
		}
	case d.running != nil:
		if d.Attempt.Count > 0 && !now.Before(d.running.started.Add(daemonHealthyAfter)) {
			d.Succeed() // It failed before, and is healthy again.
		}
		d.running.object.Notify(r.Stored)
	case desired && !d.finished && (reconnected || r.pass.RetriesCalls() || !d.Attempt.Next.After(now)):
		d.start(ctx, r, time.Time{})
	case !desired && d.lost: // Only the process knows whether it runs.
		d.start(ctx, r, now.Add(daemon.StopTimeout(d.Handler)))
	}
}

// checkExit records how a daemon ended, if it did, and schedules the restart of a failed one.
func (d *daemonState) checkExit(r *run) {
	select {
	case <-d.running.done:
	default:
		return
	}
	ended := d.running
	// It may have ended by a failed call just before it was stopped.
	d.running, d.lost = nil, daemon.IsLost(ended.err)
	if ended.stopped && errors.Is(ended.err, daemon.ErrRuns) {
		d.reportStuck(r, ended)
	}
	if ended.stopped || ended.err == nil {
		d.finished = !ended.stopped
		d.Succeed()
		return
	}
	reason, err := trigger.ReasonHandlerFailed, fmt.Errorf("daemon %s: %w", d.Title(), ended.err)
	if d.FailDaemon(ended.err, r.Now(), r.QueueOptions.Random) {
		d.finished, reason, err = true, trigger.ReasonGaveUp, fmt.Errorf("gave up: %w", err)
	}
	r.recordError(d.State, failure.WithReason(reason, err))
	d.Failed.Refused = record.AddLocations(d.Failed.Refused, ended.object.Refused()...)
}

// reportStuck reports, once, a daemon that missed its StopTimeout. Setpoint starts no second one until it returns.
func (d *daemonState) reportStuck(r *run, w *daemonRun) {
	if w.stuck {
		return
	}
	w.stuck = true
	effect := "it restarts only after it has returned"
	if r.Stored.Deleting() {
		effect = "the object is deleted without it"
	}
	r.recordError(d.State, failure.WithReason(trigger.ReasonDaemonStuck,
		fmt.Errorf("daemon %s has not returned within %s after its context was cancelled: %s",
			d.Title(), daemon.StopTimeout(d.Handler), effect)))
}

// start starts the daemon, or only stops it within a time: then it calls the process for nothing else.
func (d *daemonState) start(ctx context.Context, r *run, stopUntil time.Time) {
	running, stop := context.WithCancel(ctx)
	existing := daemon.NewLive(running, ctx, r.daemonHost, d.Handler, r.Stored)
	w := &daemonRun{object: existing, stop: stop, started: r.Now(), done: make(chan struct{})}
	if !stopUntil.IsZero() {
		w.cancel(stopUntil)
	}
	n := r.newRequest(d.Handler, r.Stored, r.dependents.byKind)
	n.Attempt = d.Attempt.Count
	c, key := r.Controller, r.Item.Key
	c.daemons.Go(func() {
		defer stop()
		w.err = c.runDaemon(running, n, d.Handler, existing)
		close(w.done)
		c.Queue.Add(key, queue.Cause{Kind: queue.RequeueAfter})
	})
	d.running = w
}

// runDaemon runs a daemon until it returns. One in another process has one goroutine, which waits most of the time.
func (c *Controller) runDaemon(ctx context.Context, n *hook.HandlerRequest, h *trigger.Handler, existing *daemon.Live) (err error) {
	run := func() error { return h.Daemon(ctx, n, existing) }
	values, asked := redact.New(nil, n.Namespace, n.Name), recordedRequest(n)
	record.See(values, c.program.Resource.GroupKind(), &asked, &record.Response{})
	controller.SeeObjects(values, []*object.Object{existing.Seen()})
	if h.Do == nil {
		n.Reader = reader{c, n.Namespace, values}
		return c.CallUserCode("the daemon", failure.Handler, logAttrs(n, h), values, run)
	}
	defer func() {
		if p := recover(); p != nil {
			values.Logger(c.Log).Error("daemon panicked", "handler", h.Name, "object",
				queue.Key{Namespace: n.Namespace, Name: n.Name}.String(), "panic", p, "stack",
				string(debug.Stack()))
			err = failure.WithReason(controller.ReasonInternalError, failure.FromPanic("internal error in Setpoint", p))
		}
	}()
	return run()
}

// writeOnce writes a response to the object of a detached run.
func (c *Controller) writeOnce(ctx context.Context, of *controller.Run, o *trigger.Response) error {
	r := c.newDetached(of)
	if err := r.dependents.applyResponse(ctx, o); err != nil {
		return err
	}
	if err := r.object.store(ctx, o); err != nil {
		return err
	}
	r.SendEvents(o.Response.Events)
	if r.object.written { // Handlers may watch what the daemon wrote.
		c.Queue.Add(controller.KeyOf(of.Stored), queue.Cause{Kind: queue.RequeueAfter})
	}
	return nil
}

func newDaemonHost(c *Controller) *daemon.Host {
	return &daemon.Host{
		Base: c.Base, Invoke: c.invoke, Write: c.writeOnce,
		Request: func(h *trigger.Handler, o *object.Object) *hook.HandlerRequest {
			return c.newRequest(h, o, c.OwnedBy(o))
		},
		Accept: func(h *trigger.Handler, o *object.Object, a *hook.HandlerResponse) (*hook.HandlerResponse, error) {
			a = withWholeNumbers(a)
			return a, c.permissions.CheckResponse(c.newRequest(h, o, nil), a)
		},
		Calls: make(chan struct{}, cmp.Or(c.program.Workers, maxDaemonCalls)),
	}
}
