package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// reconcileRequests requests reconciles as the user, at a bounded rate.
type reconcileRequests struct {
	*processes.Session
	// user is the name of the user for the history; "" if it is unknown.
	user                     string
	rate                     float64
	total, requested, failed int
	// waitFor are the requested objects.
	waitFor []requestedObject
}

func newReconcileRequests(ctx context.Context, r *processes.Session, rate float64) *reconcileRequests {
	user, _ := r.Client.API.Username(ctx) // The history goes without it.
	return &reconcileRequests{Session: r, user: user, rate: rate}
}

// send requests the reconcile of one object, or of all objects of a controller.
func (q *reconcileRequests) send(ctx context.Context, ref object.Ref, at time.Time) error {
	ref.UID = "" // A recreated object is meant too.
	return q.Client.Annotate(ctx, ref, setpoint.AnnotationReconcileAt, plan.ReconcileRequest{At: at, By: q.user}.String())
}

// controller requests a reconcile of all objects of a controller at once.
func (q *reconcileRequests) controller(ctx context.Context, c *inspect.Controller) error {
	if err := q.send(ctx, *c.Declared, time.Now()); err != nil {
		return err
	}
	fmt.Fprintf(q.Stdout, "%s: reconcile of all objects requested\n", output.Clean(c.Name))
	return nil
}

// objects requests a reconcile of each object. A rejection of one does not stop the others.
func (q *reconcileRequests) objects(ctx context.Context, targets []client.VisibleState) error {
	q.total = q.failed + len(targets)
	limiter := flowcontrol.NewFakeAlwaysRateLimiter()
	if q.rate > 0 {
		limiter = flowcontrol.NewTokenBucketRateLimiter(float32(q.rate), 1)
	}
	for i := range targets {
		if limiter.Wait(ctx) != nil || ctx.Err() != nil {
			q.Code = command.Aborted
			return fmt.Errorf("aborted: %s", q.progress())
		}
		request, ref := requestedObject{targets[i], time.Now()}, targets[i].Ref
		// A request that is on its way when the user interrupts is completed.
		err := q.send(context.WithoutCancel(ctx), ref, request.at)
		switch {
		case err == nil:
			q.requested++
			q.waitFor = append(q.waitFor, request)
			fmt.Fprintf(q.Stdout, "%s: reconcile requested\n", client.NameOf(ref))
		case apierrors.IsNotFound(err):
			q.total--
			fmt.Fprintf(q.Stderr, "warning: %s was deleted meanwhile\n", client.NameOf(ref))
		case userclient.AffectsAllObjects(err):
			return fmt.Errorf("%s: %w", q.progress(), err)
		default:
			q.reject(err)
		}
	}
	if q.failed > 0 {
		return fmt.Errorf("%s, %d rejected", q.progress(), q.failed)
	}
	return nil
}

// reject counts and prints an object that cannot be reconciled.
func (q *reconcileRequests) reject(err error) {
	q.failed++
	fmt.Fprintln(q.Stderr, "error:", output.Clean(err.Error()))
	command.PrintHint(q.Stderr, err)
}

// progress returns how many objects are requested.
func (q *reconcileRequests) progress() string {
	return fmt.Sprintf("%d of %s requested", q.requested, output.Plural(q.total, "object", "objects"))
}

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
			if now.State == inspect.StateFailing {
				w.failing++
				fmt.Fprintf(w.Stderr, "error: %s: %s\n", client.NameOf(now.Ref), output.Clean(now.Error))
			}
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
