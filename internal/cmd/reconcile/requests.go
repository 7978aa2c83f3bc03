package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
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

const (
	// maxRequests is the most requests at a time for many objects.
	maxRequests = 8
	// fewTargets is the most objects that are requested and printed one by one, in order.
	fewTargets = 20
	// maxRejections is the most rejections that are printed one by one.
	maxRejections = 10
	// reportInterval is the time between two reports of progress.
	reportInterval = 10 * time.Second
)

// reconcileRequests requests reconciles as the user, at a bounded rate.
type reconcileRequests struct {
	*processes.Session
	// user is the name of the user for the history; "" if it is unknown.
	user string
	rate float64

	mu                             sync.Mutex
	total, requested, gone, failed int
	// waitFor are the requested objects.
	waitFor []requestedObject
	// reported is the time of the latest report of progress.
	reported time.Time
}

func newReconcileRequests(ctx context.Context, r *processes.Session, rate float64) *reconcileRequests {
	user, _ := r.Client.API.Username(ctx) // The history goes without it.
	return &reconcileRequests{Session: r, user: user, rate: rate, reported: time.Now()}
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
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(q.parallel())
	for i := range targets {
		if limiter.Wait(groupCtx) != nil || groupCtx.Err() != nil {
			break
		}
		// A request that is on its way when the user interrupts is completed.
		group.Go(func() error {
			request := requestedObject{targets[i], time.Now()}
			return q.finish(request, q.send(context.WithoutCancel(ctx), targets[i].Ref, request.at))
		})
	}
	err := group.Wait()
	return q.result(ctx, err)
}

// parallel returns how many requests are sent at a time.
func (q *reconcileRequests) parallel() int {
	if q.total <= fewTargets {
		return 1
	}
	return maxRequests
}

// finish counts and prints the result of one object. It returns errors that affect all objects.
func (q *reconcileRequests) finish(of requestedObject, err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err == nil:
		q.requested++
		q.waitFor = append(q.waitFor, of)
		if q.total <= fewTargets {
			fmt.Fprintf(q.Stdout, "%s: reconcile requested\n", client.NameOf(of.before.Ref))
		}
	case apierrors.IsNotFound(err):
		q.gone++
	case userclient.AffectsAllObjects(err):
		return err
	default:
		q.reject(err)
	}
	if time.Since(q.reported) >= reportInterval {
		q.reported = time.Now()
		fmt.Fprintln(q.Stderr, q.progress())
	}
	return nil
}

// reject counts and prints an object that cannot be reconciled.
func (q *reconcileRequests) reject(err error) {
	q.failed++
	if q.failed > maxRejections {
		return
	}
	fmt.Fprintln(q.Stderr, "error:", output.Clean(err.Error()))
	if hint := command.HintOf(err); hint != "" {
		fmt.Fprintln(q.Stderr, "hint:", hint)
	}
}

// progress returns how many objects are requested.
func (q *reconcileRequests) progress() string {
	return fmt.Sprintf("%d of %s requested", q.requested, output.Plural(q.total, "object", "objects"))
}

// result prints the summary, and returns an error unless all objects were requested.
func (q *reconcileRequests) result(ctx context.Context, err error) error {
	left := q.total - q.requested - q.gone - q.failed
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", q.progress(), err)
	case left > 0 && ctx.Err() != nil:
		q.Code = command.Aborted
		return fmt.Errorf("aborted: %s", q.progress())
	case q.failed > 0:
		return fmt.Errorf("%s, %d rejected", q.progress(), q.failed)
	}
	if q.total > fewTargets {
		fmt.Fprintln(q.Stdout, q.progress())
	}
	if q.gone > 0 {
		fmt.Fprintf(q.Stderr, "warning: %s deleted meanwhile\n", output.Plural(q.gone, "object was", "objects were"))
	}
	return nil
}
