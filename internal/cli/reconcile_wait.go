package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// pollInterval is the time between two looks at an object that is not reconciled yet.
const pollInterval = 200 * time.Millisecond

// requestedObject is an object whose reconcile was requested.
type requestedObject struct {
	// before is its state before the request.
	before visibleState
	at     time.Time
}

// reconcileWait waits until objects are reconciled.
type reconcileWait struct {
	*session
	source  inspect.Source
	timeout time.Duration
	failing int
}

// checkLeader rejects a process that does not know when objects are reconciled.
func (w *reconcileWait) checkLeader(ctx context.Context) error {
	process, err := w.source.Process(ctx)
	if err == nil && process.IsStandby() {
		return fmt.Errorf("--wait: the process %s is a standby and does not know when objects are reconciled; the leader is %s",
			clean(w.source.Name()), clean(cmp.Or(process.Leader, "unknown")))
	}
	return err
}

// all waits for the reconciles of all objects. It returns an error if one is failing afterwards.
func (w *reconcileWait) all(ctx context.Context, requested []requestedObject) error {
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	for i := range requested {
		err := w.one(limited, &requested[i])
		switch {
		case ctx.Err() != nil:
			w.code = codeAborted
			return fmt.Errorf("aborted: %d of %s reconciled", i, plural(len(requested), "object", "objects"))
		case err != nil:
			return fmt.Errorf("wait for %s: %w", nameOf(requested[i].before.Ref), err)
		}
	}
	if w.failing > 0 {
		return fmt.Errorf("%d of %s failing", w.failing, plural(len(requested), "object is", "objects are"))
	}
	return nil
}

// one waits for the reconcile of one object. The process may be gone for a while.
func (w *reconcileWait) one(ctx context.Context, o *requestedObject) error {
	for {
		now, found, err := w.state(ctx, o)
		switch {
		case err == nil && !found:
			return nil // It was deleted.
		case err == nil && o.reconciled(&now):
			w.report(&now)
			return nil
		}
		if !pause(ctx, pollInterval) {
			return cmp.Or(err, fmt.Errorf("not reconciled within %s after the last request", w.timeout))
		}
	}
}

// state returns the state of an object under its controller.
func (w *reconcileWait) state(ctx context.Context, o *requestedObject) (visibleState, bool, error) {
	states, err := inspect.QueryOne(ctx, w.timeouts, w.source, func(ctx context.Context, s inspect.Source) ([]inspect.ObjectState, error) {
		return s.States(ctx, o.before.Ref)
	})
	for _, state := range states {
		if state.Controller == o.before.Controller {
			return w.permissions.state(ctx, state), true, nil
		}
	}
	return visibleState{}, false, err
}

// reconciled reports whether a run that began with the request has ended, or the object is paused.
func (o *requestedObject) reconciled(now *visibleState) bool {
	if now.State == inspect.StatePaused {
		return !now.ReconcileAt.Before(o.at)
	}
	return now.State != inspect.StateQueued && !now.ReconciledAt.Before(o.at)
}

// report prints the error of an object that is failing.
func (w *reconcileWait) report(now *visibleState) {
	if now.State != inspect.StateFailing {
		return
	}
	w.failing++
	if w.failing <= maxRejections {
		fmt.Fprintf(w.stderr, "error: %s: %s\n", nameOf(now.Ref), clean(now.Error))
	}
}
