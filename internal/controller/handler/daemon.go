package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

const (
	// DefaultStopTimeout is how long a deleted object waits for its daemon to stop, unless the daemon has a StopTimeout.
	DefaultStopTimeout = 30 * time.Second
	// daemonHealthyAfter is how long a failed daemon must run until it counts as healthy. The next failure starts a new
	// backoff.
	daemonHealthyAfter = time.Minute
	// stopInterval is the time between calls that stop a daemon, and shutdownStopTimeout limits how long Setpoint, when it
	// stops, waits for daemons.
	stopInterval        = time.Second
	shutdownStopTimeout = 5 * time.Second
)

// ErrDaemonConflict ends a daemon's write that would overwrite another client's change since the daemon last saw the object.
var ErrDaemonConflict = errors.New("another client changed the same fields")

var (
	errObjectGone = errors.New("the object is gone")
	// errDaemonRuns means that the process did not stop a daemon in time.
	errDaemonRuns = errors.New("the daemon still runs")
)

// lostError is a failed call, not an error of the daemon, which may still run.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

func isLost(err error) bool {
	_, is := errors.AsType[lostError](err)
	return is
}

func stopTimeout(h *trigger.Handler) time.Duration { return cmp.Or(h.StopTimeout, DefaultStopTimeout) }

// updateDaemon starts and stops the daemon, as the object is now.
func (d *daemonState) updateDaemon(ctx context.Context, r *run) {
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
		wake(d.running.notified)
	}
	d.connection, d.finished = connection, d.finished && desired && !reconnected
	switch {
	case d.running != nil && !desired:
		d.running.endBy(now.Add(stopTimeout(d.Handler)))
		if !d.running.deadline.After(now) {
			d.reportStuck(r, d.running)
		}
	case d.running != nil:
		if d.Attempt.Count > 0 && !now.Before(d.running.started.Add(daemonHealthyAfter)) {
			d.Succeed() // It failed before, and is healthy again.
		}
		d.running.notify(r.Stored)
	case desired && !d.finished && (reconnected || r.pass.RetriesCalls() || !d.Attempt.Next.After(now)):
		d.startDaemon(ctx, r, time.Time{})
	case !desired && d.lost: // Only the process knows whether it runs.
		d.startDaemon(ctx, r, now.Add(stopTimeout(d.Handler)))
	}
}

// nextDaemon returns when the daemon restarts, counts as healthy, or is overdue; zero for none of these.
func (d *daemonState) nextDaemon() time.Time {
	w := d.running
	switch {
	case w == nil:
		return d.Attempt.Next
	case w.stopped && !w.stuck:
		return w.deadline
	case !w.stopped && d.Attempt.Count > 0:
		return w.started.Add(daemonHealthyAfter)
	}
	return time.Time{}
}

// checkExit records how the daemon ended, if it did, and schedules the restart of a failed one.
func (d *daemonState) checkExit(r *run) {
	select {
	case <-d.running.done:
	default:
		return
	}
	ended := d.running
	// It may have ended by a failed call just before it was stopped.
	d.running, d.lost = nil, isLost(ended.err)
	if ended.stopped && errors.Is(ended.err, errDaemonRuns) {
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
	ended.mu.Lock()
	defer ended.mu.Unlock()
	d.Failed.Refused = record.AddLocations(d.Failed.Refused, ended.refused...)
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
			d.Title(), stopTimeout(d.Handler), effect)))
}

// startDaemon starts the daemon, or only stops it within a time: then it calls the process for nothing else.
func (d *daemonState) startDaemon(ctx context.Context, r *run, stopUntil time.Time) {
	running, stop := context.WithCancel(ctx)
	c, key := r.Controller, r.Item.Key
	w := &daemonRun{
		Controller: c, handler: d.Handler, key: key, uid: r.Stored.UID(), ctx: running, controllerCtx: ctx, stop: stop, started: r.Now(),
		changed: make(chan struct{}, 1), notified: make(chan struct{}, 1), done: make(chan struct{}), seen: r.Stored,
	}
	if !stopUntil.IsZero() {
		w.endBy(stopUntil)
	}
	n := r.newRequest(d.Handler, r.Stored, r.dependents.byKind)
	n.Attempt = d.Attempt.Count
	c.daemons.Go(func() {
		defer stop()
		w.err = w.runDaemon(n)
		close(w.done)
		c.Queue.Add(key, queue.Cause{Kind: queue.RequeueAfter})
	})
	d.running = w
}

func (w *daemonRun) endBy(deadline time.Time) {
	if !w.stopped {
		w.stopped, w.deadline = true, deadline
		w.stop()
	}
}

// runDaemon runs a daemon until it returns. One in another process has one goroutine, which waits most of the time.
func (w *daemonRun) runDaemon(n *hook.HandlerRequest) (err error) {
	values, asked := redact.New(nil, n.Namespace, n.Name), recordedRequest(n)
	record.See(values, w.program.Resource.GroupKind(), &asked, &record.Response{})
	controller.SeeObjects(values, []*object.Object{w.lastSeen()})
	run := func() error { return w.handler.Daemon(w.ctx, n, w) }
	if w.handler.Do == nil {
		n.Reader = reader{w.Controller, n.Namespace, values}
		return w.CallUserCode("the daemon", failure.Handler, logAttrs(n, w.handler), values, run)
	}
	defer func() {
		if p := recover(); p != nil {
			values.Logger(w.Log).Error("daemon panicked", "handler", w.handler.Name, "object", w.key.String(), "panic", p, "stack",
				string(debug.Stack()))
			err = failure.WithReason(controller.ReasonInternalError, failure.FromPanic("internal error in Setpoint", p))
		}
	}()
	return run()
}

// Updates is that of trigger.Live.
func (w *daemonRun) Updates() <-chan struct{} { return w.changed }

// notify sends on Updates if the object is newer than what the daemon saw.
func (w *daemonRun) notify(now *object.Object) {
	if last := w.lastSeen(); now.Version() > last.Version() && trigger.Differs(last, now) {
		wake(w.changed)
	}
}

// wake sends on a channel unless the receiver has not received the last value yet.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Current is that of trigger.Live.
func (w *daemonRun) Current() (*hook.HandlerRequest, error) {
	now, err := w.latest()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", w.key, err)
	}
	return w.show(now), nil
}

// Respond is that of trigger.Live. It returns ErrDaemonConflict if the response sets a field that changed since.
func (w *daemonRun) Respond(a *hook.HandlerResponse) (*hook.HandlerRequest, error) {
	if a == nil {
		return w.Current()
	}
	now, err := w.latest()
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", w.key, err)
	}
	a = withWholeNumbers(a)
	if err := w.permissions.CheckResponse(w.newRequest(w.handler, now, nil), a); err != nil {
		return nil, err
	}
	ctx, run := w.NewDetachedRun(w.ctx, now, "daemon "+w.handler.Title()+" wrote")
	err = w.tryWrite(ctx, run, &trigger.Response{Response: a})
	w.finishWrite(w.ctx, run, err)
	if err != nil {
		return nil, err
	}
	return w.show(run.Stored), nil
}

// tryWrite retries the write when the object changes meanwhile.
func (w *daemonRun) tryWrite(ctx context.Context, run *controller.Run, o *trigger.Response) error {
	for range controller.MaxConflicts {
		now, err := w.latest()
		if err != nil {
			return fmt.Errorf("write %s: %w", w.key, err)
		}
		if fields := trigger.ConflictingFields(o.Response, w.lastSeen(), now, true); len(fields) > 0 {
			return fmt.Errorf("write %s: %w: %s", w.key, ErrDaemonConflict, strings.Join(fields, ", "))
		}
		// The stored object may have changes of others, which the daemon has not seen.
		w.notify(now)
		run.Stored = now
		if err := w.writeOnce(ctx, run, o); !errors.Is(err, controller.ErrConflict) {
			return err
		}
		if !controller.Sleep(ctx, controller.ConflictDelay) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("write %s: %w", w.key, controller.ErrTooManyConflicts)
}

func (w *daemonRun) writeOnce(ctx context.Context, of *controller.Run, o *trigger.Response) error {
	r := w.newDetached(of)
	if err := r.dependents.applyResponse(ctx, o); err != nil {
		return err
	}
	if err := r.object.store(ctx, o); err != nil {
		return err
	}
	r.SendEvents(o.Response.Events)
	if r.object.written { // Handlers may watch what the daemon wrote.
		w.Queue.Add(w.key, queue.Cause{Kind: queue.RequeueAfter})
	}
	return nil
}

// finishWrite ends a detached run, and keeps where it was refused to write.
func (w *daemonRun) finishWrite(ctx context.Context, run *controller.Run, err error) {
	run.FinishDetached(ctx, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = record.AddLocations(w.refused, run.Record.Refused()...)
}

// latest returns the current object. The cache may not have our latest write yet.
func (w *daemonRun) latest() (*object.Object, error) {
	now, last := w.Get(w.key), w.lastSeen()
	switch {
	case now == nil || now.UID() != w.uid:
		return nil, errObjectGone
	case now.Version() < last.Version():
		return last, nil
	}
	return now, nil
}

// show returns the request with an object, and what it owns, that the daemon sees now.
func (w *daemonRun) show(now *object.Object) *hook.HandlerRequest {
	w.mu.Lock()
	w.seen = now
	w.mu.Unlock()
	return w.newRequest(w.handler, now, w.OwnedBy(now))
}

func (w *daemonRun) lastSeen() *object.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// CallDaemon is the Daemon of a handler whose process runs something for each object: it calls
// the handler to start, update and stop that. See hook.DaemonCall.
func CallDaemon(ctx context.Context, n *hook.HandlerRequest, of trigger.Live) error {
	existing, is := of.(*daemonRun)
	if !is {
		return errors.New("internal error: the daemon has no controller")
	}
	d := &calledDaemon{daemonRun: existing, attempt: n.Attempt}
	next := hook.DaemonStart
	for ctx.Err() == nil {
		response, err := d.callProcess(ctx, next)
		switch {
		case ctx.Err() != nil:
		case next != hook.DaemonStart && isUnknown(err):
			next = hook.DaemonStart
		case err != nil && response != nil && response.Finished:
			return &hook.TerminalError{Err: err} // Only the write has failed.
		case errors.Is(err, ErrDaemonConflict):
			next = d.waitForCall(ctx, hook.Immediately, hook.DaemonUpdate)
		case errors.Is(err, errObjectGone):
			next = d.waitForCall(ctx, 0, "")
		case err != nil:
			return err
		case response.Finished:
			return nil
		case d.wrote:
			next = d.waitForCall(ctx, hook.Immediately, hook.DaemonUpdate)
		default:
			next = d.waitForCall(ctx, response.RetryAfter, hook.DaemonCollect)
		}
	}
	return d.stopProcess(ctx)
}

func isUnknown(err error) bool { return hook.StatusCode(err) == http.StatusNotFound }

// calledDaemon is a daemon in another process.
type calledDaemon struct {
	*daemonRun

	attempt int
	// trigger is what brought about the next call, if that does not follow from its type.
	trigger string
	// wrote means that the latest response changed the object.
	wrote bool
	// immediate counts the calls in a row that the daemon brought about itself, without delay.
	immediate int
}

// waitForCall returns the next call: at once for a change or a notification, else after a delay; 0 for
// none. Consecutive immediate calls are delayed by the backoff.
func (d *calledDaemon) waitForCall(ctx context.Context, delay time.Duration, after hook.DaemonCall) hook.DaemonCall {
	if delay == hook.Immediately {
		d.immediate++
	} else {
		d.immediate = 0
	}
	if d.immediate > 1 {
		delay = d.handler.Delay(nil, d.immediate-1, rand.Float64)
	}
	var elapsed <-chan time.Time
	if delay > 0 {
		elapsed = time.After(delay)
	}
	select {
	case <-ctx.Done():
		return ""
	case <-d.changed:
		after = hook.DaemonUpdate
	case <-d.notified:
		after, d.trigger = hook.DaemonCollect, ", "+queue.Notified.String()
	case <-elapsed:
	}
	return after
}

// stopProcess calls the process until the daemon has stopped. At the end of Setpoint itself it does
// not wait for a process that cannot be called.
func (d *calledDaemon) stopProcess(ended context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), stopTimeout(d.handler))
	defer cancel()
	defer context.AfterFunc(d.controllerCtx, func() { time.AfterFunc(shutdownStopTimeout, cancel) })()
	for {
		response, err := d.callProcess(ctx, hook.DaemonStop)
		switch {
		case isUnknown(err), response != nil && response.Finished, err != nil && !isLost(err):
			return nil
		case err != nil && d.controllerCtx.Err() != nil:
			return err
		}
		select {
		case <-ctx.Done():
			return errDaemonRuns
		case <-d.notified:
		case <-time.After(stopInterval):
		}
	}
}

// callProcess calls the handler about the current object, or the last known one, and writes its
// response. An error may come with a response.
func (d *calledDaemon) callProcess(ctx context.Context, what hook.DaemonCall) (*hook.HandlerResponse, error) {
	now, err := d.latest()
	if err != nil {
		now = d.lastSeen()
	}
	ctx, run := d.NewDetachedRun(ctx, now, "daemon "+d.handler.Title()+": "+string(what)+d.trigger)
	d.trigger, d.wrote = "", false
	response, err := d.invoke(ctx, run, what)
	if o := (&trigger.Response{Response: response}); err == nil && o.Writes() {
		if err = d.writePersistently(ctx, run, o); err != nil {
			err = lostError{err}
		}
		d.wrote = run.Stored.Version() > now.Version()
	}
	if err == nil {
		err = response.Err
	}
	d.finishWrite(ctx, run, err)
	return response, err
}

// invoke makes a call, if the ServiceAccount may still read the object. A daemon is stopped anyway.
func (d *calledDaemon) invoke(ctx context.Context, of *controller.Run, what hook.DaemonCall) (*hook.HandlerResponse, error) {
	if what != hook.DaemonStop {
		if err := of.CheckReads(ctx); err != nil {
			return nil, lostError{err}
		}
	}
	select {
	case d.daemonCalls <- struct{}{}:
		defer func() { <-d.daemonCalls }()
	case <-ctx.Done():
		return nil, lostError{ctx.Err()}
	}
	n := d.show(of.Stored)
	n.Reason, n.Daemon, n.Attempt = hook.ReasonDaemon, what, d.attempt
	response, err := d.Controller.invoke(ctx, of, n, d.handler)
	if hook.IsUnreachable(err) || hook.IsMalformed(err) || hook.StatusCode(err) != 0 { // It is not the handler's own.
		err = lostError{err}
	}
	return response, err
}

// writePersistently writes a response. It retries as long as the API server does not reject it,
// because the process has given it away.
func (d *calledDaemon) writePersistently(ctx context.Context, run *controller.Run, o *trigger.Response) error {
	var retry trigger.Attempt
	for {
		err := d.tryWrite(ctx, run, o)
		if err == nil {
			d.show(run.Stored)
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrDaemonConflict) || errors.Is(err, errObjectGone) || hook.IsTerminal(err) ||
			apply.Rejected(err) {
			return err
		}
		retry.Failed(time.Now(), rand.Float64)
		run.Log.Warn("write of a daemon failed; retrying", "handler", d.handler.Name, "object", d.key.String(), "error",
			failure.OneLine(err))
		if !controller.Sleep(ctx, time.Until(retry.Next)) {
			return fmt.Errorf("write of daemon %s: %w", d.handler.Title(), err)
		}
	}
}
