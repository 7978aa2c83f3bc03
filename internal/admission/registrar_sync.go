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

// pass syncs all configurations, and returns when to check again.
func (t *syncLoop) pass(ctx context.Context) time.Time {
	programs, known := t.desired()
	again := t.options.Clock.Now().Add(idleInterval)
	bundle := t.options.Certificates.Bundle()
	if !known {
		return again
	}
	if bundle == nil {
		for _, p := range programs {
			t.reportHealth(p, false, t.options.Certificates.Err())
		}
		return again
	}
	if !bytes.Equal(bundle, t.bundle.bundle) {
		t.bundle = propagation{bundle, t.options.Clock.Now()}
	}
	all := map[configurationKey]bool{}
	for _, p := range programs {
		again = earlier(again, t.register(ctx, p, all))
	}
	again = earlier(again, t.removeUnwanted(ctx, all))
	t.reportPropagation(all)
	return again
}

// earlier returns the earlier of two times; zero means none.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// register syncs the configurations of a program.
func (t *syncLoop) register(ctx context.Context, p *Program, all map[configurationKey]bool) (again time.Time) {
	desired, err := t.options.desiredConfigurations(p, t.bundle.bundle)
	for _, w := range desired {
		if all[w.configurationKey] {
			err = errors.Join(err, fmt.Errorf("two programs have %s: rename one of them", w.configurationKey))
			continue
		}
		all[w.configurationKey] = true
		e := t.state(w.configurationKey)
		wrote := t.syncConfiguration(ctx, w, e)
		if wrote {
			t.probes.trigger(p.Name)
		}
		err = errors.Join(err, e.problem())
		again = earlier(again, e.retryAt)
	}
	if ctx.Err() == nil {
		t.reportHealth(p, t.allSynced(desired), err)
	}
	return again
}

func (t *syncLoop) allSynced(desired []desiredConfiguration) bool {
	for _, w := range desired {
		if !t.state(w.configurationKey).synced {
			return false
		}
	}
	return true
}

func (t *syncLoop) reportHealth(p *Program, registered bool, err error) {
	t.updateHealth(p.Name, func(h *Health) { h.Registered, h.Err = registered, err })
}

func (t *syncLoop) state(at configurationKey) *configurationState {
	if t.states[at] == nil {
		t.states[at] = &configurationState{}
	}
	return t.states[at]
}

// syncConfiguration syncs one configuration if it may be retried; true if it was written.
func (t *syncLoop) syncConfiguration(ctx context.Context, w desiredConfiguration, e *configurationState) bool {
	view, now := t.views[w.resource], t.options.Clock.Now()
	if !view.Synced() {
		e.markFailed(fmt.Errorf("read %s: %w", w.resource.Plural, view.Err()), now)
		return false
	}
	stored := view.Get("", w.name)
	if stored != nil && w.matches(stored) {
		e.markSynced(w, now)
		return false
	}
	if !e.mayWrite(w, now) {
		return false
	}
	if e.conflicting() && !e.warned {
		e.warned = true
		t.options.Log.Warn("another client keeps changing a webhook configuration; backing off", "configuration", w.String())
	}
	result, err := t.write(ctx, w, stored)
	switch {
	case ctx.Err() != nil:
		return false
	case apierrors.IsConflict(err):
		e.retryAt = now.Add(minDelay / 10) // The watch will have brought it.
		return false
	case err != nil:
		if e.markFailed(err, now) {
			t.options.Log.Warn("failed to write a webhook configuration; retrying", "configuration", w.String(), "error", err.Error())
		}
		return false
	}
	view.ObserveWrite(result)
	e.markWritten(w, stored == nil, w.matches(result), now)
	return true
}

// write creates or updates a configuration. It restores the label of one that lost it.
func (t *syncLoop) write(ctx context.Context, w desiredConfiguration, stored *object.Object) (*object.Object, error) {
	if stored == nil {
		created, err := send(ctx, t.options.Client.Post().AbsPath(w.resource.Path("", "")), w.json)
		if !apierrors.IsAlreadyExists(err) {
			return created, wrapError("create", w.configurationKey, err)
		}
		if stored, err = t.read(ctx, w.configurationKey); err != nil {
			return nil, wrapError("read", w.configurationKey, err)
		}
		if !t.options.owns(stored) {
			return nil, fmt.Errorf("%s does not belong to this Setpoint, because it has no label %s=%s: delete it or use another name", w.configurationKey, groupLabel, t.options.Group)
		}
	}
	body, err := w.overlay(stored)
	if err != nil {
		return nil, wrapError("update", w.configurationKey, err)
	}
	updated, err := send(ctx, t.options.Client.Put().AbsPath(w.resource.Path("", w.name)), body)
	return updated, wrapError("update", w.configurationKey, err)
}

func wrapError(verb string, at configurationKey, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, at, err)
}

func (t *syncLoop) read(ctx context.Context, at configurationKey) (*object.Object, error) {
	return parseResult(t.options.Client.Get().AbsPath(at.resource.Path("", at.name)).SetHeader("Accept", "application/json").Do(ctx))
}

// owns reports that a Setpoint of the group made a configuration, even if it lost its
// label.
func (r Registration) owns(o *object.Object) bool {
	group, labelled := o.Labels().Lookup(groupLabel)
	if labelled {
		return group == r.Group
	}
	return o.Field("metadata", "annotations", programAnnotation) != nil
}

// removeUnwanted removes configurations of the group that are not desired.
func (t *syncLoop) removeUnwanted(ctx context.Context, wanted map[configurationKey]bool) (again time.Time) {
	for resource, view := range t.views {
		for o := range view.All() {
			at := configurationKey{resource, o.Name()}
			if wanted[at] || t.isRetained(o) {
				continue
			}
			e := t.state(at)
			t.remove(ctx, at, o, e)
			again = earlier(again, e.retryAt)
		}
	}
	return again
}

func (t *syncLoop) remove(ctx context.Context, at configurationKey, o *object.Object, e *configurationState) {
	now := t.options.Clock.Now()
	// A deletion does not wait for the backoff of conflicting writes.
	if o.Deleting() || e.err != nil && now.Before(e.retryAt) {
		return
	}
	err := remove(ctx, t.options.Client, at.resource, o)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		if e.markFailed(wrapError("delete", at, err), now) {
			t.options.Log.Warn("failed to remove a webhook configuration; retrying", "configuration", at.String(), "error", err.Error())
		}
	default:
		delete(t.states, at)
		t.views[at.resource].ObserveDelete(o)
	}
}

func deleteOptions(o *object.Object) ([]byte, error) {
	uid := types.UID(o.UID())
	return json.Marshal(metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &metav1.Preconditions{UID: &uid},
	})
}

// reportPropagation reports since when all configurations have had the bundle.
func (t *syncLoop) reportPropagation(all map[configurationKey]bool) {
	since := t.bundle.since
	for at := range all {
		e := t.state(at)
		if !e.synced {
			since = time.Time{}
			break
		}
		if e.since.After(since) {
			since = e.since
		}
	}
	t.options.Certificates.Propagated(t.bundle.bundle, since)
}
