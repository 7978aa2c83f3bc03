package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
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
	object  *live
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

// daemonState is what is remembered of the daemon of one object.
type daemonState struct {
	*state

	// running is nil unless the daemon runs; finished means that it has completed, and lost that its process may run
	// it although a call failed. connection is the latest connection to the process that the daemon has seen.
	running        *daemonRun
	finished, lost bool
	connection     uint64
}

// newDaemons returns the daemons among the handlers.
func newDaemons(handlers []*state) []*daemonState {
	var all []*daemonState
	for _, h := range handlers {
		if h.Daemon != nil {
			all = append(all, &daemonState{state: h})
		}
	}
	return all
}

// syncDaemons is the step that starts the daemons of an object, notifies those that run if the
// object changed, and stops the others. A daemon that returns queues the object.
func (r *run) syncDaemons(ctx context.Context) {
	for _, d := range r.memory.daemons {
		desired := r.Phase == controller.PhaseManaged && !r.Stored.Deleting() && r.wantsDaemon(d)
		if d.running != nil {
			r.checkDaemonExit(d)
		}
		connection := r.backend.Connections()
		reconnected := d.connection != connection
		if d.running != nil && (reconnected || r.pass.causes.Has(queue.Notified)) {
			wake(d.running.object.notified)
		}
		d.connection = connection
		d.finished = d.finished && desired && !reconnected
		switch {
		case d.running != nil && !desired:
			d.running.cancel(r.tools.Now().Add(stopTimeout(d.Handler)))
			if !d.running.deadline.After(r.tools.Now()) {
				r.reportStuckDaemon(d, d.running)
			}
		case d.running != nil:
			r.checkDaemonHealth(d)
			d.running.object.notify(r.Stored)
		case desired && !d.finished && (reconnected || r.pass.retriesCalls() || !d.attempt.next.After(r.tools.Now())):
			r.startDaemon(ctx, d)
		case !desired && d.lost:
			// Only the process knows whether it runs.
			r.startDaemon(ctx, d)
			d.running.cancel(r.tools.Now().Add(stopTimeout(d.Handler)))
		}
	}
}

// wantsDaemon reports whether the object is to have a daemon. As long as that is not known, a running
// one goes on.
func (r *run) wantsDaemon(d *daemonState) bool {
	if applicable, known := r.pass.isApplicable(d.state); known {
		return applicable
	}
	return d.running != nil
}

// checkDaemonExit records how a daemon ended, if it did.
func (r *run) checkDaemonExit(d *daemonState) {
	select {
	case <-d.running.done:
	default:
		return
	}
	ended := d.running
	d.running, d.lost = nil, false
	if ended.stopped && errors.Is(ended.err, errDaemonRuns) {
		r.reportStuckDaemon(d, ended)
	}
	if ended.stopped || ended.err == nil {
		d.finished = !ended.stopped
		d.succeed()
		return
	}
	d.lost = isLost(ended.err)
	r.daemonFailed(d, ended.err)
	d.failed.refused = record.AddLocations(d.failed.refused, ended.object.refusedLocations()...)
}

// daemonFailed schedules the restart of a failed daemon, unless its retries are exhausted.
func (r *run) daemonFailed(d *daemonState, err error) {
	gaveUp := d.failDaemon(err, r.tools.Now(), r.tools.Queue.Random)
	err = fmt.Errorf("daemon %s: %w", d.title(), err)
	if gaveUp {
		d.finished = true
		r.recordError(d.state, failure.WithReason(ReasonGaveUp, fmt.Errorf("gave up: %w", err)))
		return
	}
	r.recordError(d.state, failure.WithReason(ReasonHandlerFailed, err))
}

// checkDaemonHealth records that a failed daemon is healthy again.
func (r *run) checkDaemonHealth(d *daemonState) {
	if d.attempt.count > 0 && !r.tools.Now().Before(d.running.started.Add(daemonHealthyAfter)) {
		d.succeed()
	}
}

// reportStuckDaemon reports, once, a daemon that missed its StopTimeout. Setpoint starts no
// second one until it returns.
func (r *run) reportStuckDaemon(d *daemonState, w *daemonRun) {
	if w.stuck {
		return
	}
	w.stuck = true
	effect := "it restarts only after it has returned"
	if r.Stored.Deleting() {
		effect = "the object is deleted without it"
	}
	r.recordError(d.state, failure.WithReason(ReasonDaemonStuck,
		fmt.Errorf("daemon %s has not returned within %s after its context was cancelled: %s", d.title(), stopTimeout(d.Handler), effect)))
}

// stopTimeout returns how long a deleted object waits for the daemon.
func stopTimeout(h *Handler) time.Duration { return cmp.Or(h.StopTimeout, DefaultStopTimeout) }

// waitsForDaemon reports whether the object waits for a daemon to return. A deleted object
// does not wait for a stuck one.
func (r *run) waitsForDaemon() bool {
	return slices.ContainsFunc(r.memory.daemons, func(d *daemonState) bool {
		return d.running != nil && (!d.running.stuck || !r.Stored.Deleting())
	})
}

// nextDaemon returns when a daemon restarts, counts as healthy, or is overdue; zero for none
// of these.
func (d *daemonState) nextDaemon() time.Time {
	w := d.running
	switch {
	case w == nil:
		return d.attempt.next
	case w.stopped && !w.stuck:
		return w.deadline
	case !w.stopped && d.attempt.count > 0:
		return w.started.Add(daemonHealthyAfter)
	}
	return time.Time{}
}

func (r *run) startDaemon(ctx context.Context, d *daemonState) {
	h := d.Handler
	running := ctx
	ctx, stop := context.WithCancel(ctx)
	existing := newLive(ctx, r.Controller, h, r.Stored)
	existing.controllerCtx = running
	w := &daemonRun{object: existing, stop: stop, started: r.tools.Now(), done: make(chan struct{})}
	n := r.newRequest(h, r.Stored)
	n.Owned, n.Attempt = r.program.ownedGroups(r.owned), d.attempt.count
	c, key := r.Controller, r.Item.Key
	c.daemons.Go(func() {
		defer stop()
		w.err = c.runDaemon(ctx, n, existing)
		close(w.done)
		c.Queue.Add(key, queue.Cause{Kind: queue.RequeueAfter})
	})
	d.running = w
}

// runDaemon runs a daemon until it returns. One in another process has one goroutine, which waits
// most of the time.
func (c *Controller) runDaemon(ctx context.Context, n *hook.HandlerRequest, existing *live) (err error) {
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

const (
	// stopInterval is the time between calls that stop a daemon.
	stopInterval = time.Second
	// shutdownStopTimeout limits how long Setpoint, when it stops, waits for daemons.
	shutdownStopTimeout = 5 * time.Second
)

// errDaemonRuns means that the process did not stop a daemon in time.
var errDaemonRuns = errors.New("the daemon still runs")

// lostDaemonError is a failed call, not an error of the daemon, which may still run.
type lostDaemonError struct{ error }

func (e lostDaemonError) Unwrap() error { return e.error }

// CallDaemon is the Daemon of a handler whose process runs something for each object: it calls
// the handler to start, update and stop that. See hook.DaemonCall.
func CallDaemon(ctx context.Context, n *hook.HandlerRequest, of Live) error {
	existing, is := of.(*live)
	if !is {
		return errors.New("internal error: the daemon has no controller")
	}
	d := &calledDaemon{live: existing, attempt: n.Attempt}
	next := hook.DaemonStart
	for ctx.Err() == nil {
		response, err := d.call(ctx, next)
		switch {
		case ctx.Err() != nil:
		case next != hook.DaemonStart && isUnknown(err):
			next = hook.DaemonStart
		case err != nil && response != nil && response.Finished:
			return &hook.TerminalError{Err: err} // Only the write has failed.
		case errors.Is(err, ErrConflict):
			next = d.wait(ctx, hook.Immediately, hook.DaemonUpdate)
		case errors.Is(err, errObjectGone):
			next = d.wait(ctx, 0, "")
		case err != nil:
			return err
		case response.Finished:
			return nil
		case d.wrote:
			next = d.wait(ctx, hook.Immediately, hook.DaemonUpdate)
		default:
			next = d.wait(ctx, response.RetryAfter, hook.DaemonCollect)
		}
	}
	return d.stop(ctx)
}

// isLost reports whether the daemon may run although a call failed.
func isLost(err error) bool {
	_, is := errors.AsType[lostDaemonError](err)
	return is
}

// isUnknown reports whether the process does not know a daemon, because it has restarted.
func isUnknown(err error) bool { return hook.StatusCode(err) == http.StatusNotFound }

// calledDaemon is a daemon in another process.
type calledDaemon struct {
	*live

	attempt int
	// trigger is what brought about the next call, if that does not follow from its type.
	trigger string
	// wrote means that the latest response changed the object.
	wrote bool
	// immediate counts the calls in a row that the daemon brought about itself, without delay.
	immediate int
}

// wait returns the next call: at once for a change or a notification, else after a delay; 0 for
// none. Consecutive immediate calls are delayed by the backoff.
func (d *calledDaemon) wait(ctx context.Context, delay time.Duration, after hook.DaemonCall) hook.DaemonCall {
	if delay == hook.Immediately {
		d.immediate++
	} else {
		d.immediate = 0
	}
	if d.immediate > 1 {
		delay = d.handler.delay(nil, d.immediate-1, rand.Float64)
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

// stop calls the process until the daemon has stopped. At the end of Setpoint itself it does
// not wait for a process that cannot be called.
func (d *calledDaemon) stop(ended context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), stopTimeout(d.handler))
	defer cancel()
	defer context.AfterFunc(d.controllerCtx, func() { time.AfterFunc(shutdownStopTimeout, cancel) })()
	for {
		response, err := d.call(ctx, hook.DaemonStop)
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

// call calls the handler about the current object, or the last known one, and writes its
// response. An error may come with a response.
func (d *calledDaemon) call(ctx context.Context, what hook.DaemonCall) (*hook.HandlerResponse, error) {
	now, err := d.get()
	if err != nil {
		now = d.lastSeen()
	}
	ctx, run := d.controller.NewDetachedRun(ctx, now, "daemon "+d.handler.title()+": "+string(what)+d.trigger)
	d.trigger, d.wrote = "", false
	response, err := d.invoke(ctx, run, what)
	if err == nil && writesSomething(response) {
		if err = d.writeResponse(ctx, run, response); err != nil {
			err = lostDaemonError{err}
		}
		d.wrote = run.Stored.Version() > now.Version()
	}
	if err == nil {
		err = response.Err
	}
	run.FinishDetached(ctx, err)
	d.addRefused(run.Record.Refused())
	return response, err
}

// invoke makes a call, if the ServiceAccount may still read the object. A daemon is stopped anyway.
func (d *calledDaemon) invoke(ctx context.Context, of *controller.Run, what hook.DaemonCall) (*hook.HandlerResponse, error) {
	c := d.controller
	if what != hook.DaemonStop {
		r := &run{Controller: c, Run: of, detached: true}
		if err := r.checkReads(ctx); err != nil {
			return nil, lostDaemonError{err}
		}
	}
	select {
	case c.daemonCalls <- struct{}{}:
		defer func() { <-c.daemonCalls }()
	case <-ctx.Done():
		return nil, lostDaemonError{ctx.Err()}
	}
	n := d.setSeen(of.Stored)
	n.Reason, n.Daemon, n.Attempt = hook.ReasonDaemon, what, d.attempt
	response, err := c.invoke(ctx, of, n, d.handler)
	if err != nil && !isHandlersOwn(err) {
		err = lostDaemonError{err}
	}
	return response, err
}

// isHandlersOwn reports whether the handler itself returned the error.
func isHandlersOwn(err error) bool {
	return !hook.IsUnreachable(err) && !hook.IsMalformed(err) && hook.StatusCode(err) == 0
}

// writeResponse writes a response. It retries as long as the API server does not reject it,
// because the process has given it away.
func (d *calledDaemon) writeResponse(ctx context.Context, run *controller.Run, response *hook.HandlerResponse) error {
	var retry attempt
	o := &pendingResponse{response: response}
	for {
		err := d.write(ctx, run, o)
		if err == nil {
			d.setSeen(run.Stored)
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrConflict) || errors.Is(err, errObjectGone) || hook.IsTerminal(err) || isRejection(err) {
			return err
		}
		retry.failed(time.Now(), rand.Float64)
		run.Log.Warn("write of a daemon failed; retrying", "handler", d.handler.Name, "object", d.key.String(), "error",
			failure.OneLine(err))
		if !controller.Sleep(ctx, time.Until(retry.next)) {
			return fmt.Errorf("write of daemon %s: %w", d.handler.title(), err)
		}
	}
}

// ErrConflict ends a daemon's write that would overwrite another client's change since the
// daemon last saw the object.
var ErrConflict = errors.New("another client changed the same fields")

var errObjectGone = errors.New("the object is gone")

// live is the object of a running daemon.
type live struct {
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

func newLive(ctx context.Context, c *Controller, h *Handler, o *object.Object) *live {
	return &live{controller: c, ctx: ctx, handler: h, key: controller.KeyOf(o), uid: o.UID(), changed: make(chan struct{}, 1),
		notified: make(chan struct{}, 1), seen: o}
}

// Changed receives when the object differs from what the daemon last saw, apart from the records
// of handlers.
func (l *live) Changed() <-chan struct{} { return l.changed }

// notify sends on Changed if the object is newer than what the daemon saw.
func (l *live) notify(now *object.Object) {
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
func (l *live) Get() (*hook.HandlerRequest, error) {
	now, err := l.get()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.key, err)
	}
	return l.setSeen(now), nil
}

// Write writes a response to the current object and returns the stored object. It returns
// ErrConflict, and writes nothing, if the response sets a field that changed since the daemon
// last saw the object.
func (l *live) Write(a *hook.HandlerResponse) (*hook.HandlerRequest, error) {
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
func (l *live) write(ctx context.Context, run *controller.Run, o *pendingResponse) error {
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
func (l *live) get() (*object.Object, error) {
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
func (l *live) setSeen(now *object.Object) *hook.HandlerRequest {
	l.mu.Lock()
	l.seen = now
	l.mu.Unlock()
	n := l.controller.newRequest(l.handler, now)
	n.Owned = l.controller.program.ownedGroups(l.controller.ownedBy(now))
	return n
}

func (l *live) lastSeen() *object.Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// addRefused records the locations of refused writes.
func (l *live) addRefused(at []record.Location) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusedAt = record.AddLocations(l.refusedAt, at...)
}

// refusedLocations returns the locations of refused writes.
func (l *live) refusedLocations() []record.Location {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.refusedAt)
}
