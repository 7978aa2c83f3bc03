package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// pass brings everything in line that is not, and says when to look again.
func (t *term) pass(ctx context.Context) time.Time {
	programs, known := t.wanted()
	again := t.options.Clock.Now().Add(distantly)
	bundle := t.options.Keeper.Bundle()
	if !known {
		return again
	}
	if bundle == nil {
		for _, p := range programs {
			t.judge(p, false, t.options.Keeper.Err())
		}
		return again
	}
	if !bytes.Equal(bundle, t.bundle.bundle) {
		t.bundle = carriage{bundle, t.options.Clock.Now()}
	}
	all := map[slot]bool{}
	for _, p := range programs {
		again = earlier(again, t.register(ctx, p, all))
	}
	again = earlier(again, t.removeOthers(ctx, all))
	t.tellCarried(all)
	return again
}

// earlier is the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// register brings the configurations of a program in line.
func (t *term) register(ctx context.Context, p *Program, all map[slot]bool) (again time.Time) {
	wishes, err := t.options.wishes(p, t.bundle.bundle)
	for _, w := range wishes {
		if all[w.slot] {
			err = errors.Join(err, fmt.Errorf("%s is wanted twice: give another name", w.slot))
			continue
		}
		all[w.slot] = true
		e := t.effort(w.slot)
		wrote := t.keep(ctx, w, e)
		if wrote {
			t.probes.nudge(p.Name)
		}
		err = errors.Join(err, e.trouble())
		again = earlier(again, e.next)
	}
	if ctx.Err() == nil {
		t.judge(p, t.carriedBy(wishes), err)
	}
	return again
}

// carriedBy says that the API server has all as they are wanted.
func (t *term) carriedBy(wishes []wish) bool {
	for _, w := range wishes {
		if !t.effort(w.slot).kept {
			return false
		}
	}
	return true
}

func (t *term) judge(p *Program, registered bool, err error) {
	t.update(p.Name, func(h *Health) { h.Registered, h.Err = registered, err })
}

func (t *term) effort(at slot) *effort {
	if t.efforts[at] == nil {
		t.efforts[at] = &effort{}
	}
	return t.efforts[at]
}

// keep brings one configuration in line, if it may be tried again; true if it was
// written.
func (t *term) keep(ctx context.Context, w wish, e *effort) bool {
	view, now := t.views[w.resource], t.options.Clock.Now()
	if !view.Synced() {
		e.failed(fmt.Errorf("read %s: %w", w.resource.Plural, view.Err()), now)
		return false
	}
	stored := view.Get("", w.name)
	if stored != nil && w.is(stored) {
		e.found(w, now)
		return false
	}
	if !e.begin(w, now) {
		return false
	}
	if e.contested() && !e.told {
		e.told = true
		t.options.Log.Warn("somebody else changes a webhook configuration again and again; putting it back at ever longer intervals", "configuration", w.String())
	}
	result, err := t.write(ctx, w, stored)
	switch {
	case ctx.Err() != nil:
		return false
	case apierrors.IsConflict(err):
		e.next = now.Add(minDelay / 10) // The watch will have brought it.
		return false
	case err != nil:
		if e.failed(err, now) {
			t.options.Log.Warn("a webhook configuration cannot be kept; trying again", "configuration", w.String(), "error", err.Error())
		}
		return false
	}
	view.Wrote(result)
	e.wrote(w, stored == nil, w.is(result), now)
	return true
}

// write creates or updates a configuration. One that is there but has lost its
// label is still ours, and gets it back.
func (t *term) write(ctx context.Context, w wish, stored *object.Object) (*object.Object, error) {
	if stored == nil {
		created, err := send(ctx, t.options.Client.Post().AbsPath(w.resource.Path("", "")), w.json)
		if !apierrors.IsAlreadyExists(err) {
			return created, within("create", w.slot, err)
		}
		if stored, err = t.read(ctx, w.slot); err != nil {
			return nil, within("read", w.slot, err)
		}
		if !t.options.owns(stored) {
			return nil, fmt.Errorf("%s is there and is not this Setpoint's, it lacks the label %s=%s: delete it, or give another name", w.slot, groupLabel, t.options.Group)
		}
	}
	body, err := w.over(stored)
	if err != nil {
		return nil, within("update", w.slot, err)
	}
	updated, err := send(ctx, t.options.Client.Put().AbsPath(w.resource.Path("", w.name)), body)
	return updated, within("update", w.slot, err)
}

func within(verb string, at slot, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, at, err)
}

func (t *term) read(ctx context.Context, at slot) (*object.Object, error) {
	result := t.options.Client.Get().AbsPath(at.resource.Path("", at.name)).SetHeader("Accept", "application/json").Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, err
	}
	return object.Parse(raw)
}

// owns says that a configuration was made by a Setpoint of the group, whatever
// somebody has done to its labels.
func (r Registration) owns(o *object.Object) bool {
	group, labelled := o.Labels().Lookup(groupLabel)
	if labelled {
		return group == r.Group
	}
	return o.Field("metadata", "annotations", programAnnotation) != nil
}

// removeOthers removes the configurations of the group that nobody wants.
func (t *term) removeOthers(ctx context.Context, wanted map[slot]bool) (again time.Time) {
	for resource, view := range t.views {
		for o := range view.All() {
			at := slot{resource, o.Name()}
			if wanted[at] || t.spares(o) {
				continue
			}
			e := t.effort(at)
			t.remove(ctx, at, o, e)
			again = earlier(again, e.next)
		}
	}
	return again
}

func (t *term) remove(ctx context.Context, at slot, o *object.Object, e *effort) {
	now := t.options.Clock.Now()
	// What was put back again and again need not be left alone to be removed.
	if o.Deleting() || e.err != nil && now.Before(e.next) {
		return
	}
	err := remove(ctx, t.options.Client, at.resource, o)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		if e.failed(within("delete", at, err), now) {
			t.options.Log.Warn("a webhook configuration that nobody wants cannot be removed; trying again", "configuration", at.String(), "error", err.Error())
		}
	default:
		delete(t.efforts, at)
		t.views[at.resource].Removed(o)
	}
}

// deletion removes the very object given.
func deletion(o *object.Object) ([]byte, error) {
	uid := types.UID(o.UID())
	return json.Marshal(metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &metav1.Preconditions{UID: &uid},
	})
}

// tellCarried tells the keeper since when all configurations carry the bundle.
func (t *term) tellCarried(all map[slot]bool) {
	since := t.bundle.since
	for at := range all {
		e := t.effort(at)
		if !e.kept {
			since = time.Time{}
			break
		}
		if e.since.After(since) {
			since = e.since
		}
	}
	t.options.Keeper.Carried(t.bundle.bundle, since)
}
