package ui

import (
	"context"
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
// first whose last run is the longest ago, so that whoever asks again reaches the others.
func (v *visit) reconcileEach(source inspect.Source, c *inspect.Controller) error {
	done := &askedFor{}
	for _, kind := range v.askable(c) {
		query := inspect.Query{Group: kind.Group, Kind: kind.Kind, Sort: "run", Reverse: true, Limit: maxAsked}
		page, err := inspect.AskOne(v.context(), v.patience, source, func(ctx context.Context, s inspect.Source) (inspect.Page, error) {
			return s.Objects(ctx, c.Name, query)
		})
		if err != nil {
			return err
		}
		done.all += page.Matching
		left := maxAsked - done.asked - done.refused
		if err := v.askFor(page.Objects[:min(left, len(page.Objects))], done); err != nil {
			return err
		}
	}
	v.flash(done.String())
	return v.redirect(controllerURL(c.Process, c.Name))
}

// askFor asks for a run of each object. One that may not be written to, or is gone, does
// not keep the others from it.
func (v *visit) askFor(cares []inspect.Care, done *askedFor) error {
	group, ctx := errgroup.WithContext(v.context())
	group.SetLimit(askedSide)
	at := v.now().UTC().Format(time.RFC3339Nano)
	for i := range cares {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			change := annotated(v1alpha1.AnnotationReconcileAt, at)
			return done.note(v.patch(cares[i].Ref, change))
		})
	}
	return group.Wait()
}

// askedFor counts the objects that were asked for, of all there are.
type askedFor struct {
	mu                  sync.Mutex
	all, asked, refused int
}

// note counts what came of asking for one object; it returns what is about all of them.
func (a *askedFor) note(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.asked++
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		a.refused++
	case apierrors.IsNotFound(err):
		a.all--
	default:
		return err
	}
	return nil
}

func (a *askedFor) String() string {
	text := plural(a.asked, "object is", "objects are") + " being looked at."
	if a.refused > 0 {
		text += " Of " + strconv.Itoa(a.refused) + " more, the API server refused that: their pages say why."
	}
	if left := a.all - a.asked - a.refused; left > 0 {
		text += " " + plural(left, "other was", "others were") + " left out, which is too many at a time: ask again for these."
	}
	return text
}
