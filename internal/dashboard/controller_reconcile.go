package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Objects of a controller without a manifest are annotated one by one: at most
// maxBulkReconciles per request, bulkParallelism at a time.
const (
	maxBulkReconciles = 500
	bulkParallelism   = 8
)

// reconcilableKinds returns the kinds of a controller whose objects the user may list and
// patch.
func (req *request) reconcilableKinds(c *inspect.Controller) []object.Kind {
	var kinds []object.Kind
	for _, kind := range c.Kinds {
		if req.can("list", kind, "", "") && req.can("patch", kind, "", "") {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// reconcileObjects requests a reconcile of each object of a controller as the user. Objects
// whose last request is oldest come first, so that repeated requests reach all of them.
func (req *request) reconcileObjects(source inspect.Source, c *inspect.Controller) error {
	done := &reconcileTally{}
	var all []inspect.ObjectState
	for _, kind := range req.reconcilableKinds(c) {
		query := inspect.Query{Group: kind.Group, Kind: kind.Kind, Sort: "reconcileAt", Limit: maxBulkReconciles}
		some, err := req.listUnpaused(source, c.Name, query, done)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b inspect.ObjectState) int { return a.ReconcileAt.Compare(b.ReconcileAt) })
	if err := req.annotateObjects(all[:min(len(all), maxBulkReconciles)], done); err != nil {
		return req.abortReconcile(err, done)
	}
	req.flash(done.String())
	return req.redirect(controllerURL(c.Process, c.Name))
}

// listUnpaused returns the objects of a query that are not paused, and counts all of them.
func (req *request) listUnpaused(source inspect.Source, controller string, query inspect.Query,
	done *reconcileTally) ([]inspect.ObjectState,
	error) {
	page, err := req.fetchObjects(source, controller, query)
	if err != nil {
		return nil, err
	}
	done.total += page.Matching
	if page.States[inspect.StatePaused] == 0 {
		return page.Objects, nil
	}
	query.State, query.Limit = inspect.StatePaused, 1
	paused, err := req.fetchObjects(source, controller, query)
	done.total -= paused.Matching
	done.paused += paused.Matching
	return slices.DeleteFunc(page.Objects, func(c inspect.ObjectState) bool { return c.State == inspect.StatePaused }), err
}

// annotateObjects requests a reconcile of each object. An error of one object does not stop the
// others, unless it affects all of them.
func (req *request) annotateObjects(states []inspect.ObjectState, done *reconcileTally) error {
	group, ctx := errgroup.WithContext(req.context())
	group.SetLimit(bulkParallelism)
	change := req.reconcilePatch()
	for i := range states {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return done.record(req.patch(ctx, states[i].Ref, change))
		})
	}
	return group.Wait()
}

// abortReconcile reports the progress so far. Users who have to sign in again see it after
// that.
func (req *request) abortReconcile(err error, done *reconcileTally) error {
	message := fmt.Sprintf("requested a reconcile of %d of %d objects", done.requested, done.total)
	if apierrors.IsUnauthorized(err) {
		req.flash(capitalize(message) + ". Reconcile again for the others.")
	}
	return fmt.Errorf("%s: %w", message, err)
}

// reconcileTally counts the objects of a bulk reconcile, without paused ones.
type reconcileTally struct {
	mu                                 sync.Mutex
	total, paused, requested, rejected int
}

// record counts the result of one object. It returns errors that affect all objects.
func (a *reconcileTally) record(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.requested++
	case apierrors.IsNotFound(err):
		a.total--
	case userclient.AffectsAllObjects(err):
		return err
	default:
		a.rejected++
	}
	return nil
}

func (a *reconcileTally) String() string {
	text := "Reconciling " + pluralize(a.requested, "object", "objects") + "."
	if a.rejected > 0 {
		text += " The API server rejected " + strconv.Itoa(a.rejected) + " more: reconcile one from its own page to see why."
	}
	if a.paused > 0 {
		text += " Skipped " + pluralize(a.paused, "paused object", "paused objects") + "."
	}
	if left := a.total - a.requested - a.rejected; left > 0 {
		text += " " + pluralize(left, "object is", "objects are") + " left for the next request."
	}
	return text
}
