package ui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Where no object declares a controller, each of its objects is asked for: so many at
// most, and so many at a time.
const (
	maxAsked  = 500
	askedSide = 8
)

// askable are the kinds of a controller of which the visitor may ask for any object.
func (v *visit) askable(c *inspect.Controller) []inspect.Kind {
	var kinds []inspect.Kind
	for _, kind := range c.Kinds {
		if v.may("list", kind, "", "") && v.may("patch", kind, "", "") {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// reconcileEach asks for a run of each object of a controller, as the visitor. Those come
// first that were asked for the longest ago, so that whoever asks again reaches the others.
func (v *visit) reconcileEach(source inspect.Source, c *inspect.Controller) error {
	done := &askedFor{}
	var all []inspect.Care
	for _, kind := range v.askable(c) {
		query := inspect.Query{Group: kind.Group, Kind: kind.Kind, Sort: "asked", Limit: maxAsked}
		some, err := v.unpaused(source, c.Name, query, done)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b inspect.Care) int { return a.Asked.Compare(b.Asked) })
	if err := v.askFor(all[:min(len(all), maxAsked)], done); err != nil {
		return v.breaksOff(err, done)
	}
	v.flash(done.String())
	return v.redirect(controllerURL(c.Process, c.Name))
}

// unpaused are the objects that a query is about, without those that a user wants left
// alone; of both, it counts all that there are.
func (v *visit) unpaused(source inspect.Source, controller string, query inspect.Query, done *askedFor) ([]inspect.Care, error) {
	objects := func(query inspect.Query) (inspect.Page, error) {
		return inspect.AskOne(v.context(), v.patience, source, func(ctx context.Context, s inspect.Source) (inspect.Page, error) {
			return s.Objects(ctx, controller, query)
		})
	}
	page, err := objects(query)
	if err != nil {
		return nil, err
	}
	done.all += page.Matching
	if page.States[inspect.Paused] == 0 {
		return page.Objects, nil
	}
	query.State, query.Limit = inspect.Paused, 1
	paused, err := objects(query)
	done.all -= paused.Matching
	done.paused += paused.Matching
	return slices.DeleteFunc(page.Objects, func(c inspect.Care) bool { return c.State == inspect.Paused }), err
}

// askFor asks for a run of each object. What comes of one does not keep the others from
// it, unless it would come of all.
func (v *visit) askFor(cares []inspect.Care, done *askedFor) error {
	group, ctx := errgroup.WithContext(v.context())
	group.SetLimit(askedSide)
	change := annotated(v1alpha1.AnnotationReconcileAt, v.now().UTC().Format(time.RFC3339Nano))
	for i := range cares {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return done.note(v.patch(ctx, cares[i].Ref, change))
		})
	}
	return group.Wait()
}

// breaksOff says how far it came; who has to sign in before they read on is told there.
func (v *visit) breaksOff(err error, done *askedFor) error {
	said := fmt.Sprintf("%s asked for, of %d", plural(done.asked, "object was", "objects were"), done.all)
	if apierrors.IsUnauthorized(err) {
		v.flash(title(said) + ". Ask again for the others.")
	}
	return fmt.Errorf("%s, before this: %w", said, err)
}

// askedFor counts the objects that were asked for, of all that are not paused.
type askedFor struct {
	mu                          sync.Mutex
	all, paused, asked, refused int
}

// note counts what came of asking for one object; it returns what would come of all.
func (a *askedFor) note(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.asked++
	case apierrors.IsNotFound(err):
		a.all--
	case comesOfAll(err):
		return err
	default:
		a.refused++
	}
	return nil
}

// comesOfAll says that an error is not about the object that was asked for: that nobody
// answers, that more is asked than the API server can take, or that the visitor is not
// known any more, or has left.
func comesOfAll(err error) bool {
	if _, later := apierrors.SuggestsClientDelay(err); apierrors.IsTooManyRequests(err) && !later {
		return false // A webhook can say that, too.
	}
	return unreachable(err) || apierrors.IsUnauthorized(err) || errors.Is(err, context.Canceled)
}

func (a *askedFor) String() string {
	text := plural(a.asked, "object is", "objects are") + " being looked at."
	if a.refused > 0 {
		text += " Of " + strconv.Itoa(a.refused) + " more, the API server refused that: reconcile one on its own page to see why."
	}
	if a.paused > 0 {
		text += " " + plural(a.paused, "other is", "others are") + " paused, and left alone."
	}
	if left := a.all - a.asked - a.refused; left > 0 {
		text += " " + plural(left, "other was", "others were") + " left out, which is too many at a time: ask again for these."
	}
	return text
}
