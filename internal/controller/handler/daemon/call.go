package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

const (
	// stopInterval is the time between calls that stop a daemon.
	stopInterval = time.Second
	// ShutdownStopTimeout limits how long Setpoint, when it stops, waits for daemons.
	ShutdownStopTimeout = 5 * time.Second
)

// ErrRuns means that the process did not stop a daemon in time.
var ErrRuns = errors.New("the daemon still runs")

// lostError is a failed call, not an error of the daemon, which may still run.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// Call is the Daemon of a handler whose process runs something for each object: it calls
// the handler to start, update and stop that. See hook.DaemonCall.
func Call(ctx context.Context, n *hook.HandlerRequest, of trigger.Live) error {
	existing, is := of.(*Live)
	if !is {
		return errors.New("internal error: the daemon has no controller")
	}
	d := &calledDaemon{Live: existing, attempt: n.Attempt}
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

// IsLost reports whether the daemon may run although a call failed.
func IsLost(err error) bool {
	_, is := errors.AsType[lostError](err)
	return is
}

// isUnknown reports whether the process does not know a daemon, because it has restarted.
func isUnknown(err error) bool { return hook.StatusCode(err) == http.StatusNotFound }

// calledDaemon is a daemon in another process.
type calledDaemon struct {
	*Live

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

// stop calls the process until the daemon has stopped. At the end of Setpoint itself it does
// not wait for a process that cannot be called.
func (d *calledDaemon) stop(ended context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), StopTimeout(d.handler))
	defer cancel()
	defer context.AfterFunc(d.hostCtx, func() { time.AfterFunc(ShutdownStopTimeout, cancel) })()
	for {
		response, err := d.call(ctx, hook.DaemonStop)
		switch {
		case isUnknown(err), response != nil && response.Finished, err != nil && !IsLost(err):
			return nil
		case err != nil && d.hostCtx.Err() != nil:
			return err
		}
		select {
		case <-ctx.Done():
			return ErrRuns
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
		now = d.Seen()
	}
	ctx, run := d.host.Base.NewDetachedRun(ctx, now, "daemon "+d.handler.Title()+": "+string(what)+d.trigger)
	d.trigger, d.wrote = "", false
	response, err := d.invoke(ctx, run, what)
	if o := (&trigger.Response{Response: response}); err == nil && o.Writes() {
		if err = d.writeResponse(ctx, run, o); err != nil {
			err = lostError{err}
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
	if what != hook.DaemonStop {
		if err := of.CheckReads(ctx); err != nil {
			return nil, lostError{err}
		}
	}
	select {
	case d.host.Calls <- struct{}{}:
		defer func() { <-d.host.Calls }()
	case <-ctx.Done():
		return nil, lostError{ctx.Err()}
	}
	n := d.setSeen(of.Stored)
	n.Reason, n.Daemon, n.Attempt = hook.ReasonDaemon, what, d.attempt
	response, err := d.host.Invoke(ctx, of, n, d.handler)
	if hook.IsUnreachable(err) || hook.IsMalformed(err) || hook.StatusCode(err) != 0 { // It is not the handler's own.
		err = lostError{err}
	}
	return response, err
}

// writeResponse writes a response. It retries as long as the API server does not reject it,
// because the process has given it away.
func (d *calledDaemon) writeResponse(ctx context.Context, run *controller.Run, o *trigger.Response) error {
	var retry trigger.Attempt
	for {
		err := d.write(ctx, run, o)
		if err == nil {
			d.setSeen(run.Stored)
			return nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrConflict) || errors.Is(err, errObjectGone) || hook.IsTerminal(err) || apply.Rejected(err) {
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
