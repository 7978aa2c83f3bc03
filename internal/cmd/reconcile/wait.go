package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// pollInterval is the time between two looks at an object that is not reconciled yet.
const pollInterval = 200 * time.Millisecond

// requestedObject is an object whose reconcile was requested.
type requestedObject struct {
	// before is its state before the request.
	before client.VisibleState
	at     time.Time
}

// reconcileWait waits until objects are reconciled.
type reconcileWait struct {
	*processes.Session
	source  inspect.Source
	timeout time.Duration
	failing int
}

// checkLeader rejects a process that does not know when objects are reconciled.
func (w *reconcileWait) checkLeader(ctx context.Context) error {
	process, err := w.source.Process(ctx)
	if err == nil && process.IsStandby() {
		return fmt.Errorf("--wait: the process %s is a standby and does not know when objects are reconciled; the leader is %s",
			output.Clean(w.source.Name()), output.Clean(cmp.Or(process.Leader, "unknown")))
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
			w.Code = command.Aborted
			return fmt.Errorf("aborted: %d of %s reconciled", i, output.Plural(len(requested), "object", "objects"))
		case err != nil:
			return fmt.Errorf("wait for %s: %w", client.NameOf(requested[i].before.Ref), err)
		}
	}
	if w.failing > 0 {
		return fmt.Errorf("%d of %s failing", w.failing, output.Plural(len(requested), "object is", "objects are"))
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
		if !command.Pause(ctx, pollInterval) {
			return cmp.Or(err, fmt.Errorf("not reconciled within %s after the last request", w.timeout))
		}
	}
}

// state returns the state of an object under its controller.
func (w *reconcileWait) state(ctx context.Context, o *requestedObject) (client.VisibleState, bool, error) {
	states, err := inspect.QueryOne(ctx, w.Timeouts, w.source, func(ctx context.Context, s inspect.Source) ([]inspect.ObjectState, error) {
		return s.States(ctx, o.before.Ref)
	})
	for _, state := range states {
		if state.Controller == o.before.Controller {
			return w.Client.State(ctx, state), true, nil
		}
	}
	return client.VisibleState{}, false, err
}

// reconciled reports whether a run that began with the request has ended, or the object is paused.
func (o *requestedObject) reconciled(now *client.VisibleState) bool {
	if now.State == inspect.StatePaused {
		return !now.ReconcileAt.Before(o.at)
	}
	return now.State != inspect.StateQueued && !now.ReconciledAt.Before(o.at)
}

// report prints the error of an object that is failing.
func (w *reconcileWait) report(now *client.VisibleState) {
	if now.State != inspect.StateFailing {
		return
	}
	w.failing++
	if w.failing <= maxRejections {
		fmt.Fprintf(w.Stderr, "error: %s: %s\n", client.NameOf(now.Ref), output.Clean(now.Error))
	}
}
